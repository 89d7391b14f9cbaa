// Fast vocabulary product with cross-entropy (ops/loss.h) for f32 and bf16: no checks, threaded.
//
// A tile of logits exists only between the product that writes it and the exponentials that use it up, in a thread's own
// cache. They are taken relative to the target's logit, computed beforehand, so that no pass looks for the largest one:
//   e_v = e^(x_v − r),  r ≈ x_target,  S = Σ_v e_v,  loss = log S + (r − x_target)
// and the gradient keeps its sum as a factor of the row: dx = scale/S · (e − S·onehot(target)).
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "ops/matrix.h"

namespace athanor::ops::cpu {

/// Loss of `rows` tokens; with `e` (act [rows, V]) not empty also e − S·onehot and factor[t] = scale/S, both 0 without a
/// target. h real or act [rows, D].
void head_exponentials(const Context& ctx, const Tensor& h, const PackedMatrix& head,
                       const int32_t* targets, double scale, const Tensor& loss, const Tensor& e,
                       std::span<float> factor);

/// to[t] = factor[t] · from[t], f32 or bf16 [rows, D]; `to` may be `from`.
void scale_rows(const Context& ctx, const Tensor& from, std::span<const float> factor,
                const Tensor& to);

}  // namespace athanor::ops::cpu
