// Properties of characters, as Hugging Face's tokenizers know them (Unicode 16), and reading of UTF-8 that is known valid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace athanor::data::hf {

/// Unicode's general categories. kSpaceControl is the part of Cc that is white space (U+0009–000D, U+0085).
enum Category : uint8_t {
  kCc,
  kCf,
  kCn,
  kCo,
  kCs,
  kLl,
  kLm,
  kLo,
  kLt,
  kLu,
  kMc,
  kMe,
  kMn,
  kNd,
  kNl,  // clang-format off
  kNo, kPc, kPd, kPe, kPf, kPi, kPo, kPs, kSc, kSk, kSm, kSo, kZl, kZp, kZs,
  kSpaceControl,  // clang-format on
};

/// A set of categories as bits.
using Categories = uint32_t;
constexpr Categories bit(Category category) { return Categories{1} << category; }
inline constexpr Categories kLetters = bit(kLl) | bit(kLm) | bit(kLo) | bit(kLt) | bit(kLu);
inline constexpr Categories kMarks = bit(kMc) | bit(kMe) | bit(kMn);
inline constexpr Categories kNumbers = bit(kNd) | bit(kNl) | bit(kNo);
inline constexpr Categories kSpaces = bit(kZl) | bit(kZp) | bit(kZs) | bit(kSpaceControl);

/// The category of every character: 0x110000 entries.
extern const uint8_t* const kCategoryOf;
inline bool in(char32_t c, Categories set) { return (set >> kCategoryOf[c] & 1) != 0; }
inline bool is_space(char32_t c) { return in(c, kSpaces); }
/// \w of Rust's `regex`: Alphabetic, marks, decimal digits, connectors and joiners.
bool is_word(char32_t c);
/// What the Punctuation and Digits pre-tokenizers split at, StripAccents takes away, \p{Han}.
bool is_punctuation(char32_t c);
bool is_numeric(char32_t c);
bool is_accent(char32_t c);
bool is_han(char32_t c);

struct Character {
  char32_t code;
  uint32_t bytes;
};
/// The character that valid, non-empty UTF-8 begins with.
inline Character first_character(const char* text) {
  const auto byte = [text](int i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}
inline Character first_character(std::string_view text) { return first_character(text.data()); }
/// The last one.
Character last_character(std::string_view text);
void append_utf8(std::string& out, char32_t code);
/// `c` in lower case, as UTF-8.
void append_lowercase(std::string& out, char32_t c);

}  // namespace athanor::data::hf
