#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/hf/regex_classes.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <functional>
#include <vector>

#include "base/error.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

using Holds = std::function<bool(char32_t)>;
constexpr char32_t kEnd = 0x110000;

constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

/// The categories that "Lu", or "L" for all that begin so, names; 0 when none.
Categories categories_of(std::string_view name) {
  Categories set = 0;
  if (name.empty() || name.size() > 2) return set;
  for (size_t i = 0; i < kCategoryNames.size(); ++i) {
    if (kCategoryNames[i].starts_with(name)) set |= Categories{1} << i;
  }
  if ((set & bit(kCc)) != 0) set |= bit(kSpaceControl);
  return set;
}

/// \w of Oniguruma in brackets: as Rust's, but without joiners.
bool is_bracketed_word(char32_t c) { return is_word(c) && c != 0x200C && c != 0x200D; }

/// \w of Oniguruma outside of them: with the superscripts and fractions of Latin-1, too.
bool is_onig_word(char32_t c) {
  return is_bracketed_word(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
}

bool is_hex_digit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/// The ranges of all characters in a set; surrogates, which no text has, are left out.
std::string ranges_of(const Holds& holds) {
  std::string ranges;
  for (char32_t c = 0; c < kEnd;) {
    if (c == 0xD800) c = 0xE000;
    if (!holds(c)) {
      ++c;
      continue;
    }
    const char32_t first = c;
    while (c < kEnd && c != 0xD800 && holds(c)) ++c;
    ranges += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(first),
                          static_cast<uint32_t>(c - 1));
  }
  return ranges;
}

/// Which characters the library's own edition of Unicode counts to a category.
std::vector<bool> library_members(std::string_view category) {
  static const std::string all = [] {
    std::string text;
    for (char32_t c = 0; c < kEnd; ++c) {
      if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
    }
    return text;
  }();
  const std::string regex = fmt::format("\\p{{{}}}+", category);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                   PCRE2_UTF, &error, &offset, nullptr);
  require(code != nullptr, "PCRE2 does not know a general category");
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  std::vector<bool> members(kEnd);
  for (size_t from = 0; pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(),
                                    from, PCRE2_NO_UTF_CHECK, data, nullptr) > 0;) {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
    for (size_t at = ends[0]; at < ends[1];) {
      const Character character = first_character(all.data() + at);
      members[character.code] = true;
      at += character.bytes;
    }
    from = ends[1];
  }
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return members;
}

/// A category as the library's own, which is fast and short, and what Unicode 16 has beyond that; or all of its ranges
/// where the library has characters that Unicode 16 has not.
std::string category_class(std::string_view name, const Holds& holds) {
  const std::vector<bool> members = library_members(name);
  for (char32_t c = 0; c < kEnd; ++c) {
    if (members[c] && !holds(c)) return ranges_of(holds);
  }
  return fmt::format("\\p{{{}}}", name) +
         ranges_of([&](char32_t c) { return holds(c) && !members[c]; });
}

/// \w by categories, whose names are short, and the rest.
std::string word_class(const Holds& holds) {
  std::string members;
  Categories named = 0;
  for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"}) {
    const Categories set = categories_of(name);
    members += category_class(name, [set](char32_t c) { return in(c, set); });
    named |= set;
  }
  return members + ranges_of([&](char32_t c) { return holds(c) && !in(c, named); });
}

}  // namespace

std::optional<std::string> class_of(std::string_view name, bool negated) {
  Holds holds;
  const Categories categories = categories_of(name);
  if (categories != 0) {
    holds = [categories](char32_t c) { return in(c, categories); };
    if (!negated) return category_class(name, holds);
  } else if (name == "s") {
    holds = [](char32_t c) { return is_space(c); };
  } else if (name == "d") {
    holds = [](char32_t c) { return in(c, bit(kNd)); };
    if (!negated) return category_class("Nd", holds);
  } else if (name == "w" || name == "[w]") {
    holds = name == "w" ? is_onig_word : is_bracketed_word;
    if (!negated) return word_class(holds);
  } else if (name == "h") {
    holds = is_hex_digit;
  } else if (name == "Han") {
    holds = is_han;
  } else {
    return std::nullopt;
  }
  if (negated) return ranges_of([&](char32_t c) { return !holds(c); });
  return ranges_of(holds);
}

}  // namespace athanor::data::hf
