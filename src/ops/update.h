// The optimizers' passes over memory.
#pragma once

#include "ops/context.h"

namespace athanor::ops {

struct AdamWOptions {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  int64_t step = 1;           ///< from 1, for the bias corrections
  double gradient_scale = 1;  ///< clipping
};
/// p ← p(1−lr·wd); m, v updated with gradient_scale·g; p ← p − lr·(m/(1−β1ᵗ))/(√(v/(1−β2ᵗ))+ε) (golden/README "AdamW").
/// All real, contiguous, of one size.
void adamw(Context& ctx, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options);

/// momentum ← μ·momentum + (1−μ)·s·g; nesterov = (1−μ)·s·g + μ·momentum. All real; s = gradient_scale.
void muon_momentum(Context& ctx, const Tensor& g, double mu, double gradient_scale,
                   const Tensor& momentum, const Tensor& nesterov);
/// p ← p·decay − step·o.
void muon_apply(Context& ctx, const Tensor& p, const Tensor& o, double decay, double step);

}  // namespace athanor::ops
