#include "data/hf/known_patterns.h"

#include <array>
#include <cstring>
#include <utility>

#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

/// What the patterns ask of a character.
enum Kind : uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kNewline = 8,     // \r or \n, which are kSpace too
  kUpperLike = 16,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLowerLike = 32,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

constexpr std::array<uint8_t, 32> kKindOfCategory = [] {
  std::array<uint8_t, 32> kinds{};
  for (uint32_t category = 0; category < 32; ++category) {
    const Categories one = Categories{1} << category;
    uint8_t kind = 0;
    if ((one & kLetters) != 0) kind |= kLetter;
    if ((one & kNumbers) != 0) kind |= kNumber;
    if ((one & kSpaces) != 0) kind |= kSpace;
    if ((one & (kMarks | bit(kLu) | bit(kLt) | bit(kLm) | bit(kLo))) != 0) kind |= kUpperLike;
    if ((one & (kMarks | bit(kLl) | bit(kLm) | bit(kLo))) != 0) kind |= kLowerLike;
    kinds[category] = kind;
  }
  return kinds;
}();

constexpr std::array<uint8_t, 128> kKindOfAscii = [] {
  std::array<uint8_t, 128> kinds{};
  for (int c = 'a'; c <= 'z'; ++c) kinds[c] = kLetter | kLowerLike;
  for (int c = 'A'; c <= 'Z'; ++c) kinds[c] = kLetter | kUpperLike;
  for (int c = '0'; c <= '9'; ++c) kinds[c] = kNumber;
  for (int c = 9; c <= 13; ++c) kinds[c] = kSpace;
  kinds[' '] = kSpace;
  kinds['\r'] |= kNewline;
  kinds['\n'] |= kNewline;
  return kinds;
}();

/// A place in the text.
struct Cursor {
  const char* at;
  const char* end;

  bool ended() const { return at == end; }
  char byte() const { return *at; }
  bool ascii() const { return static_cast<unsigned char>(*at) < 0x80; }
  /// The kind of the character here, and its bytes. Not at the end.
  std::pair<uint8_t, uint32_t> look() const {
    if (ascii()) return {kKindOfAscii[static_cast<unsigned char>(*at)], 1};
    const Character c = first_character(at);
    return {kKindOfCategory[kCategoryOf[c.code]], c.bytes};
  }
  uint8_t kind() const { return ended() ? uint8_t{0} : look().first; }

  /// Past all characters that have a kind in `any`.
  void skip(uint8_t any) {
    while (at != end) {
      const auto [kind, bytes] = look();
      if ((kind & any) == 0) return;
      at += bytes;
    }
  }
  /// Past [^\s\p{L}\p{N}]*.
  void skip_others() {
    while (at != end) {
      const auto [kind, bytes] = look();
      if ((kind & (kLetter | kNumber | kSpace)) != 0) return;
      at += bytes;
    }
  }
};

bool is_other(uint8_t kind) { return (kind & (kLetter | kNumber | kSpace)) == 0; }

/// 's 't 're 've 'm 'll 'd: the bytes of one that stands here, 0 when none does.
size_t contraction(const Cursor& here, bool any_case) {
  const auto at = [&](size_t i) -> char {
    if (static_cast<size_t>(here.end - here.at) <= i) return '\0';
    const char c = here.at[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c;
  };
  if (at(0) != '\'') return 0;
  switch (at(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return at(2) == 'e' ? 3 : 0;
    case 'l':
      return at(2) == 'l' ? 3 : 0;
    case '\xC5':  // ſ (U+017F), another s where case does not count
      return any_case && at(2) == '\xBF' ? 3 : 0;
    default:
      return 0;
  }
}

/// \s+(?!\S)|\s+ : the white space from here on, without its last character if a word follows and more than one is there.
Cursor white_space(const Cursor& here) {
  Cursor now = here;
  const char* last = now.at;
  while (!now.ended()) {
    const auto [kind, bytes] = now.look();
    if ((kind & kSpace) == 0) return last == here.at ? now : Cursor{last, now.end};
    last = now.at;
    now.at += bytes;
  }
  return now;
}

Cursor gpt2_word(Cursor now) {
  if (now.byte() == '\'') {
    if (const size_t bytes = contraction(now, false); bytes > 0) {
      now.at += bytes;
      return now;
    }
  }
  const Cursor begin = now;
  if (now.byte() == ' ' && now.at + 1 != now.end) ++now.at;
  const auto [kind, bytes] = now.look();
  if ((kind & kSpace) != 0) return white_space(begin);
  now.at += bytes;
  if ((kind & (kLetter | kNumber)) != 0) {
    now.skip(kind & (kLetter | kNumber));
  } else {
    now.skip_others();
  }
  return now;
}

/// \s*[\r\n]+|\s+(?!\S)|\s+ : white space to its last line break, if there is one in it.
Cursor lines(const Cursor& here) {
  Cursor now = here;
  const char* after_newline = nullptr;
  while (!now.ended()) {
    const auto [kind, bytes] = now.look();
    if ((kind & kSpace) == 0) break;
    now.at += bytes;
    if ((kind & kNewline) != 0) after_newline = now.at;
  }
  if (after_newline != nullptr) return {after_newline, here.end};
  return white_space(here);
}

/// What the two newer patterns share behind their words of letters: numbers, other characters, white space.
Cursor other_word(Cursor now, uint8_t kind, uint32_t bytes, int most_digits, bool slashes) {
  if ((kind & kNumber) != 0) {
    for (int digits = 0; digits < most_digits && (now.kind() & kNumber) != 0; ++digits) {
      now.at += now.look().second;
    }
    return now;
  }
  Cursor others = now;
  if (now.byte() == ' ') ++others.at;
  if ((kind & kSpace) != 0 && (others.at == now.at || others.ended() || !is_other(others.kind()))) {
    return lines(now);
  }
  if (others.at == now.at) others.at += bytes;
  others.skip_others();
  while (!others.ended() &&
         (others.byte() == '\r' || others.byte() == '\n' || (slashes && others.byte() == '/'))) {
    ++others.at;
  }
  return others;
}

template <int kMostDigits>
Cursor cl100k_word(Cursor now) {
  if (now.byte() == '\'') {
    if (const size_t bytes = contraction(now, true); bytes > 0) {
      now.at += bytes;
      return now;
    }
  }
  const auto [kind, bytes] = now.look();
  if ((kind & kLetter) != 0) {
    now.at += bytes;
    now.skip(kLetter);
    return now;
  }
  if ((kind & (kNewline | kNumber)) == 0) {  // one character may stand in front of letters
    Cursor word{now.at + bytes, now.end};
    if ((word.kind() & kLetter) != 0) {
      word.skip(kLetter);
      return word;
    }
  }
  return other_word(now, kind, bytes, kMostDigits, false);
}

/// [upper]*[lower]+ from `now` on; where there is no match, nullptr.
const char* lower_word(Cursor now) {
  const char* after_both = nullptr;  // behind the last character that is of both classes
  while (!now.ended()) {
    const auto [kind, bytes] = now.look();
    if ((kind & kUpperLike) == 0) break;
    now.at += bytes;
    if ((kind & kLowerLike) != 0) after_both = now.at;
  }
  if ((now.kind() & kLowerLike) != 0) {
    now.skip(kLowerLike);
    return now.at;
  }
  return after_both;
}

/// [upper]+[lower]* where lower_word() found nothing: then no lower one follows.
const char* upper_word(Cursor now) {
  const char* begin = now.at;
  now.skip(kUpperLike);
  return now.at == begin ? nullptr : now.at;
}

Cursor o200k_word(Cursor now) {
  const auto [kind, bytes] = now.look();
  const bool prefix = (kind & (kNewline | kLetter | kNumber)) == 0;
  const Cursor behind{now.at + bytes, now.end};
  const char* end = prefix ? lower_word(behind) : nullptr;
  if (end == nullptr) end = lower_word(now);
  if (end == nullptr && prefix) end = upper_word(behind);
  if (end == nullptr) end = upper_word(now);
  if (end != nullptr) {
    now.at = end;
    if (!now.ended() && now.byte() == '\'') now.at += contraction(now, true);
    return now;
  }
  return other_word(now, kind, bytes, 3, true);
}

template <class Match>
void loop(std::string_view text, FunctionRef<void(size_t, size_t)> word, Match match) {
  const char* begin = text.data();
  Cursor now{begin, begin + text.size()};
  while (!now.ended()) {
    const Cursor next = match(now);
    word(static_cast<size_t>(now.at - begin), static_cast<size_t>(next.at - begin));
    now = next;
  }
}

}  // namespace

const char* const kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::optional<KnownPattern> known_pattern(std::string_view regex) {
  static const std::array<std::pair<std::string_view, KnownPattern>, 5> known = {{
      {kGpt2Regex, KnownPattern::kGpt2},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       KnownPattern::kGpt2},
      {kLlama3Regex, KnownPattern::kCl100kThreeDigits},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       KnownPattern::kCl100kOneDigit},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       KnownPattern::kO200k},
  }};
  for (const auto& [spelling, pattern] : known) {
    if (spelling == regex) return pattern;
  }
  return std::nullopt;
}

void each_word(KnownPattern pattern, std::string_view text,
               FunctionRef<void(size_t begin, size_t end)> word) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return loop(text, word, gpt2_word);
    case KnownPattern::kCl100kOneDigit:
      return loop(text, word, cl100k_word<1>);
    case KnownPattern::kCl100kThreeDigits:
      return loop(text, word, cl100k_word<3>);
    case KnownPattern::kO200k:
      return loop(text, word, o200k_word);
  }
}

}  // namespace athanor::data::hf
