#include "data/hf/unicode.h"

#include <algorithm>
#include <memory>

#include "data/hf/unicode_tables.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kCharacters = 0x110000;

/// The runs of the table, spread out: one load tells a character's category.
std::unique_ptr<uint8_t[]> spread_categories() {
  auto categories = std::make_unique<uint8_t[]>(kCharacters);
  for (size_t i = 0; i < kCategoryStartsCount; ++i) {
    const size_t begin = kCategoryStarts[i] >> 5;
    const size_t end = i + 1 < kCategoryStartsCount ? kCategoryStarts[i + 1] >> 5 : kCharacters;
    std::fill(categories.get() + begin, categories.get() + end,
              static_cast<uint8_t>(kCategoryStarts[i] & 31));
  }
  return categories;
}

bool holds(const CodeRange* ranges, size_t count, char32_t c) {
  const CodeRange* found = std::upper_bound(
      ranges, ranges + count, c, [](char32_t code, const CodeRange& r) { return code < r.first; });
  return found != ranges && c <= found[-1].last;
}

}  // namespace

const uint8_t* const kCategoryOf = [] {
  static const std::unique_ptr<uint8_t[]> categories = spread_categories();
  return categories.get();
}();

bool is_word(char32_t c) {
  // Letter numbers and these circled and squared letters are Alphabetic without being letters.
  static constexpr CodeRange kSymbols[] = {
      {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  return in(c, kLetters | kMarks | bit(kNd) | bit(kNl) | bit(kPc)) || c == 0x200C || c == 0x200D ||
         holds(kSymbols, std::size(kSymbols), c);
}
bool is_punctuation(char32_t c) { return holds(kPunctuation, kPunctuationCount, c); }
bool is_numeric(char32_t c) { return holds(kNumeric, kNumericCount, c); }
bool is_accent(char32_t c) { return holds(kAccents, kAccentsCount, c); }
bool is_han(char32_t c) { return holds(kHan, kHanCount, c); }

Character last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.data() + begin);
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      out += static_cast<char>(0xE0 | code >> 12);
    } else {
      out += static_cast<char>(0xF0 | code >> 18);
      out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (code & 0x3F));
}

void append_lowercase(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {  // the one capital whose small form is two characters
    out += "i\xCC\x87";
    return;
  }
  const LowercaseRange* end = kLowercase + kLowercaseCount;
  const LowercaseRange* found = std::upper_bound(
      kLowercase, end, c, [](char32_t code, const LowercaseRange& r) { return code < r.first; });
  if (found != kLowercase && c <= found[-1].last && (c - found[-1].first) % found[-1].stride == 0) {
    c = static_cast<char32_t>(static_cast<int32_t>(c) + found[-1].distance);
  }
  append_utf8(out, c);
}

}  // namespace athanor::data::hf
