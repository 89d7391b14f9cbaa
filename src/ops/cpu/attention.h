// Blocked attention for f32 and bf16 (ops/attention.h): no checks, threaded.
//
// A block is up to kBlockRows rows (query, head) that share a key head. For each kBlockKeys keys, counted from key 0 of
// the segment, sᵀ [key][row] = scale · K · qᵀ reads K as it lies against the block's queries in panels; the softmax runs
// down the keys in every lane by itself and leaves p in the panels in which the next product, out [row][d] += p · V,
// reads its left factor. V is packed once for all blocks. All products are the matrix kernels' own (matrix_kernel.h), in
// the dtype of q. A row's bits depend on its own keys alone: not on the rows beside it, nor on how many there are.
#pragma once

#include <cstdint>
#include <span>

#include "ops/attention.h"
#include "ops/context.h"

namespace athanor::ops::cpu {

/// Six panels: two register tiles of three for AVX-512, three tile pairs for AMX.
constexpr int64_t kBlockRows = 96;
/// With d ≤ 128 all that a block touches (s, p, K, V, out) is below 300 KB and stays in the second-level cache. Even, so
/// that no pair of keys lies in two blocks.
constexpr int64_t kBlockKeys = 128;

/// Both take scratch; while planning only that.
void attention(const Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse);
void attention_backward(const Context& ctx, const Tensor& dout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

/// What the kernels need to know of one block of rows. Row r of a segment is query r / group, head r % group of the key
/// head; row i of the block is row first_row + i.
struct AttentionRows {
  int64_t first_row = 0;
  int64_t count = 0;     ///< ≤ kBlockRows
  int64_t group = 1;     ///< query heads per key head
  int64_t position = 0;  ///< key index of the segment's query 0
  int64_t window = 0;    ///< 0: none

  int64_t query(int64_t i) const { return (first_row + i) / group; }
  int64_t head(int64_t i) const { return (first_row + i) % group; }
  /// First and last key that row i sees.
  int64_t last_key(int64_t i) const { return position + query(i); }
  int64_t first_key(int64_t i) const {
    const int64_t first = last_key(i) - window + 1;
    return window == 0 || first < 0 ? 0 : first;
  }
  /// Some row does not see some key of [first, first + count).
  bool needs_mask(int64_t first, int64_t keys) const {
    return last_key(0) < first + keys - 1 || first_key(count - 1) > first;
  }
  /// Rows rounded up to whole panels.
  int64_t width() const { return (count + 15) / 16 * 16; }
};

}  // namespace athanor::ops::cpu
