// Blocked causal attention with grouped key/value heads, documents, sliding windows and caches.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cca.h"
#include "ops/context.h"

namespace athanor::ops {

/// Queries [query_begin, query_begin + query_count) of the batch against their own keys. The last query sees the last
/// key: query i of the segment sits at key index key_count − query_count + i. Rows of keys and values (act dtype,
/// [key_count, Hk·d]) are dense.
struct AttentionSegment {
  int64_t query_begin = 0;
  int64_t query_count = 0;
  const void* keys = nullptr;
  const void* values = nullptr;
  int64_t key_count = 0;
};

struct AttentionShape {
  Heads heads;
  int64_t window = 0;  ///< keys a query may see, itself included; 0: all
  double scale = 1.0;  ///< on the logits, 1/√d
};

/// Pairs of a query and a key that it sees, of `queries` queries of which the last sees the last of `keys` keys. This, not
/// the area of a block, is what attention's useful FLOPs go by.
int64_t visible_pairs(int64_t queries, int64_t keys, int64_t window);

/// out[t, h] = softmax over visible keys of scale · q·k, times v; query head h reads key head ⌊h/(Hq/Hk)⌋. q act
/// [T, Hq·d], out act [T, Hq·d], lse real [T, Hq] (log-sum-exp of the scaled logits; may be empty). Memory is linear in
/// length; blocks that the mask empties are not computed.
void attention(Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse);

/// Gradient for self-attention over `segments` of the same rows (training: keys are rows of k, values of v, act
/// [T, Hk·d]). dout act or real; dq, dk, dv real, written.
void attention_backward(Context& ctx, const Tensor& dout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

}  // namespace athanor::ops
