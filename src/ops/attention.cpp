#include "ops/attention.h"

#include "ops/checks.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/reference/attention.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

void check_shape(const Checks& check, const AttentionShape& shape) {
  const Heads& heads = shape.heads;
  check.that(heads.key >= 1 && heads.query >= heads.key && heads.query % heads.key == 0,
             "query heads must be a multiple of key heads");
  check.that(heads.size >= 1 && shape.window >= 0, "head size or window out of range");
}

OpShape shape_of(const Tensor& q, const AttentionShape& shape) {
  return {q.rows(), shape.heads.query, shape.heads.key, shape.heads.size};
}

/// `products` products of one visible pair's vectors, in every query head.
double pair_flops(const AttentionShape& shape, int64_t pairs, double products) {
  return products * 2.0 * static_cast<double>(shape.heads.query * shape.heads.size) *
         static_cast<double>(pairs);
}

/// The logits, and their product with the values.
OpWork forward_work(const Tensor& q, std::span<const AttentionSegment> segments,
                    const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
  int64_t pairs = 0, keys = 0;
  for (const AttentionSegment& s : segments) {
    pairs += visible_pairs(s.query_count, s.key_count, shape.window);
    keys += s.key_count;
  }
  const auto key_bytes =
      static_cast<int64_t>(size_of(q.dtype())) * shape.heads.key * shape.heads.size;
  return {.shape = shape_of(q, shape),
          .flops = pair_flops(shape, pairs, 2),
          .compute = q.dtype(),
          .bytes = bytes_of({q, out, lse}) + 2.0 * static_cast<double>(keys * key_bytes)};
}

/// The logits again, then the gradients of probabilities, values, queries and keys.
OpWork backward_work(const Tensor& q, Segments segments, const AttentionShape& shape,
                     double bytes) {
  int64_t pairs = 0;
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const int64_t count = segments[s + 1] - segments[s];
    pairs += visible_pairs(count, count, shape.window);
  }
  return {.shape = shape_of(q, shape),
          .flops = pair_flops(shape, pairs, 5),
          .compute = q.dtype(),
          .bytes = bytes};
}

}  // namespace

int64_t visible_pairs(int64_t queries, int64_t keys, int64_t window) {
  const int64_t first = keys - queries + 1;  // keys that the first query would see without a window
  if (window == 0 || window >= keys) return queries * (first + keys) / 2;
  if (window <= first) return queries * window;
  const int64_t growing = window - first;  // queries before the window is full
  return growing * (first + window - 1) / 2 + (queries - growing) * window;
}

void attention(Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
  const TraceSpan span(ctx, "attention",
                       [&] { return forward_work(q, segments, shape, out, lse); });
  const Checks check("attention", real_of(q.dtype()));
  check_shape(check, shape);
  const int64_t tokens = q.rows(), width = shape.heads.query * shape.heads.size;
  check.real_or_act("q", q, tokens, width);
  check.real_or_act("out", out, tokens, width);
  check.that(q.dtype() == out.dtype(), "q and out must have one dtype");
  if (!lse.empty()) check.real("lse", lse, tokens, shape.heads.query);
  for (const AttentionSegment& s : segments) {
    check.that(s.query_begin >= 0 && s.query_count >= 0 && s.query_begin + s.query_count <= tokens,
               "a segment's queries lie outside q");
    check.that(s.key_count >= s.query_count, "a segment needs a key for each of its queries");
  }
  if (!runs_reference(ctx, check)) {
    cpu::attention(ctx, q, segments, shape, out, lse);
  } else if (!ctx.planning()) {
    reference::attention(q, segments, shape, out, lse);
  }
}

void attention_backward(Context& ctx, const Tensor& dout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const TraceSpan span(ctx, "attention_backward", [&] {
    return backward_work(q, segments, shape, bytes_of({dout, q, k, v, out, lse, dq, dk, dv}));
  });
  const Checks check("attention_backward", lse);
  check_shape(check, shape);
  const Heads& heads = shape.heads;
  const int64_t tokens = q.rows(), width = heads.query * heads.size;
  const int64_t key_width = heads.key * heads.size;
  for (const auto& [name, t] : {std::pair{"dout", dout}, {"q", q}, {"out", out}}) {
    check.real_or_act(name, t, tokens, width);
  }
  check.real_or_act("k", k, tokens, key_width);
  check.real_or_act("v", v, tokens, key_width);
  check.that(k.dtype() == q.dtype() && v.dtype() == q.dtype(), "q, k and v must have one dtype");
  check.real("lse", lse, tokens, heads.query);
  check.real("dq", dq, tokens, width);
  check.real("dk", dk, tokens, key_width);
  check.real("dv", dv, tokens, key_width);
  check.segments(segments, tokens);
  if (!runs_reference(ctx, check)) {
    cpu::attention_backward(ctx, dout, q, k, v, out, lse, segments, shape, dq, dk, dv);
  } else if (!ctx.planning()) {
    reference::attention_backward(dout, q, k, v, out, lse, segments, shape, dq, dk, dv);
  }
}

}  // namespace athanor::ops
