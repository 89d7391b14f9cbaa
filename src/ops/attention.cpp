#include "ops/attention.h"

#include "ops/checks.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/reference/attention.h"

namespace athanor::ops {
namespace {

void check_shape(const Checks& check, const AttentionShape& shape) {
  const Heads& heads = shape.heads;
  check.that(heads.key >= 1 && heads.query >= heads.key && heads.query % heads.key == 0,
             "query heads must be a multiple of key heads");
  check.that(heads.size >= 1 && shape.window >= 0, "head size or window out of range");
}

DType real_of(DType act) { return act == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace

void attention(Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
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
  if (!runs_reference(ctx, check.real_dtype())) {
    cpu::attention(ctx, q, segments, shape, out, lse);
  } else if (!ctx.planning()) {
    reference::attention(q, segments, shape, out, lse);
  }
}

void attention_backward(Context& ctx, const Tensor& dout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
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
  if (!runs_reference(ctx, check.real_dtype())) {
    cpu::attention_backward(ctx, dout, q, k, v, out, lse, segments, shape, dq, dk, dv);
  } else if (!ctx.planning()) {
    reference::attention_backward(dout, q, k, v, out, lse, segments, shape, dq, dk, dv);
  }
}

}  // namespace athanor::ops
