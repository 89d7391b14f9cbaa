// Tables of unicode_tables.cpp, which unicode_tables.py writes; read through unicode.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace athanor::data::hf {

/// Characters first … last, both included.
struct CodeRange {
  uint32_t first, last;
};
/// Every `stride`-th character of first … last becomes itself + distance.
struct LowercaseRange {
  uint32_t first, last, stride;
  int32_t distance;
};

/// Where a run of characters of one general category begins: character << 5 | category (unicode.h).
extern const uint32_t kCategoryStarts[];
extern const size_t kCategoryStartsCount;
extern const LowercaseRange kLowercase[];
extern const size_t kLowercaseCount;
/// What the Punctuation and Digits pre-tokenizers and the StripAccents normalizer take, and \p{Han}.
extern const CodeRange kPunctuation[];
extern const size_t kPunctuationCount;
extern const CodeRange kNumeric[];
extern const size_t kNumericCount;
extern const CodeRange kAccents[];
extern const size_t kAccentsCount;
extern const CodeRange kHan[];
extern const size_t kHanCount;

}  // namespace athanor::data::hf
