// Sums over tokens in fixed blocks, added in a fixed order: the same bits for any number of
// threads.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace athanor::ops::cpu {

/// Rows that enter one partial sum.
constexpr int64_t kSumRows = 64;

inline int64_t sum_blocks(int64_t rows) { return (rows + kSumRows - 1) / kSumRows; }

/// Partial sums of `vectors` vectors of `width` floats for each block of kSumRows rows.
class PartialSums {
 public:
  PartialSums(Arena& scratch, int64_t rows, int64_t vectors, int64_t width);

  /// The vector `v` of the block whose first row is `row`.
  float* block(int64_t row, int64_t v) const {
    return data_ + ((row / kSumRows) * vectors_ + v) * width_;
  }
  /// to[c·step] += factor[c] · Σ over blocks of vector v; factor has `width` elements; null: 1.
  void add_to(const Context& ctx, int64_t v, float* to, int64_t step, const float* factor) const;

 private:
  int64_t blocks_;
  int64_t vectors_;
  int64_t width_;
  float* data_;
};

}  // namespace athanor::ops::cpu
