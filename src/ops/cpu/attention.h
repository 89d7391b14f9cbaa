// Blocked attention for f32 and bf16 (ops/attention.h): no checks, threaded.
//
// Queries are the lanes. A block is up to kBlock rows (query, head) that share a key head, transposed once: qᵀ
// [d][kBlock]. For each block of kBlock keys, counted from key 0 of the segment, sᵀ [key][row] = K · qᵀ broadcasts
// elements of K as they lie, the softmax runs down the keys in every lane by itself, and outᵀ [d][row] += Vᵀ · pᵀ. So a
// row's bits depend on its own keys alone: not on the rows beside it, nor on how many there are.
#pragma once

#include <cstdint>
#include <span>

#include "ops/attention.h"
#include "ops/context.h"

namespace athanor::ops::cpu {

constexpr int64_t kBlock =
    64;  // rows and keys of a block: four vectors of AVX-512, and d ≤ 128 stays in L2

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
  int64_t count = 0;     ///< ≤ kBlock
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
};

/// Elements of one row of a block's transposed or converted copies, whole vectors of every target.
constexpr int64_t padded(int64_t size) { return (size + 15) / 16 * 16; }

}  // namespace athanor::ops::cpu
