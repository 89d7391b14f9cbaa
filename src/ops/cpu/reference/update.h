// Plain twins of ops/update.h: no checks, one thread, double inside.
#pragma once

#include "ops/update.h"

namespace athanor::ops::reference {

void adamw(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options);
void muon_momentum(const Tensor& g, double mu, double gradient_scale, const Tensor& momentum,
                   const Tensor& nesterov);
void muon_apply(const Tensor& p, const Tensor& o, double decay, double step);

}  // namespace athanor::ops::reference
