// Fast kernels of ops/update.h for f32: no checks, threaded, one pass over memory.
#pragma once

#include "ops/context.h"
#include "ops/update.h"

namespace athanor::ops::cpu {

void adamw(const Context& ctx, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options);
void muon_momentum(const Context& ctx, const Tensor& g, double mu, double gradient_scale,
                   const Tensor& momentum, const Tensor& nesterov);
void muon_apply(const Context& ctx, const Tensor& p, const Tensor& o, double decay, double step);

}  // namespace athanor::ops::cpu
