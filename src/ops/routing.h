// The router's and the experts' small ops (zaya1.md §2.3, §2.4, §2.8).
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace athanor::ops {

/// y = x · Φ(x), exact erf form. x real [T, R], y act or real.
void gelu(Context& ctx, const Tensor& x, const Tensor& y);
/// dx (real or act) = dy ⊙ gelu'(x).
void gelu_backward(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx);

/// state = r + γ ⊙ previous (depth averaging); all real [T, R], γ real [R]. state may be r.
void depth_average(Context& ctx, const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state);
/// dprevious = γ ⊙ dstate (written), dgamma accumulates Σ_t dstate ⊙ previous.
void depth_average_backward(Context& ctx, const Tensor& dstate, const Tensor& gamma,
                            const Tensor& previous, const Tensor& dprevious, const Tensor& dgamma);

/// probability = softmax(logits) over E+1 classes; expert = argmax(probability + bias), lowest index on ties; weight =
/// probability[expert], 0 for the skip class E. logits, probability real [T, E+1], bias real [E+1], expert i32 [T],
/// weight real [T].
void route(Context& ctx, const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight);
/// dlogits (real or act) from dweight real [T]; a skipped token has none.
void route_backward(Context& ctx, const Tensor& dweight, const Tensor& probability,
                    const Tensor& expert, const Tensor& dlogits);

/// Counting sort of tokens by expert, stable: order[i] (i32 [T]) is the token at sorted place i; offsets [E+1] are the
/// experts' boundaries; tokens of the skip class E are left out, so offsets[E] = tokens that have an expert; entries of
/// order past it are −1. While planning, offsets put all T tokens into expert 0.
void sort_by_expert(Context& ctx, const Tensor& expert, int64_t experts, const Tensor& order,
                    std::span<int64_t> offsets);

/// to[i] = from[order[i]] for i < count; rows past it are left alone. from, to act or real.
void gather_rows(Context& ctx, const Tensor& from, const Tensor& order, int64_t count,
                 const Tensor& to);
/// to[order[i]] accumulates from[i] for i < count; to real, from act or real.
void scatter_add_rows(Context& ctx, const Tensor& from, const Tensor& order, int64_t count,
                      const Tensor& to);
/// out[order[i]] = weight[order[i]] · y[i] for i < count, 0 for tokens without an expert. y act or real [T, D], out real.
void combine(Context& ctx, const Tensor& y, const Tensor& order, int64_t count,
             const Tensor& weight, const Tensor& out);
/// dy[i] = weight[t] · dout[t] (act or real), dweight[t] = dout[t] · y[i], t = order[i]; dweight 0 without an expert.
void combine_backward(Context& ctx, const Tensor& dout, const Tensor& y, const Tensor& order,
                      int64_t count, const Tensor& weight, const Tensor& dy, const Tensor& dweight);

/// h = silu(gate) ⊙ up, gate_up [rows, 2I] (gate first) real or act, h act or real [rows, I], over the first `count` rows.
void silu_product(Context& ctx, const Tensor& gate_up, int64_t count, const Tensor& h);
/// dgate_up (act or real) is written, over the first `count` rows. dh real or act.
void silu_product_backward(Context& ctx, const Tensor& dh, const Tensor& gate_up, int64_t count,
                           const Tensor& dgate_up);

}  // namespace athanor::ops
