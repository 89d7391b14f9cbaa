// Vocabulary product and cross-entropy, fused in chunks of tokens: full logits never exist.
#pragma once

#include "ops/context.h"
#include "ops/matrix.h"

namespace athanor::ops {

/// Targets that are negative have no loss and no gradient.
struct VocabularyHead {
  const PackedMatrix* forward = nullptr;     ///< n = V, k = D
  const PackedMatrix* transposed = nullptr;  ///< n = D, k = V; needed for dh
};

/// loss[t] (real [T]) = logsumexp(h·Eᵀ) − (h·Eᵀ)[target], 0 without a target. h act [T, D], targets i32 [T].
/// With dh (real [T, D], written) and dtable (real [V, D], accumulated) not empty also the gradient of
/// gradient_scale · Σ_t loss[t].
void vocabulary_loss(Context& ctx, const Tensor& h, const VocabularyHead& head,
                     const Tensor& targets, double gradient_scale, const Tensor& loss,
                     const Tensor& dh, const Tensor& dtable);

}  // namespace athanor::ops
