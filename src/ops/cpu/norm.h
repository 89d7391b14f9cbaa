// Fast kernels of ops/norm.h for f32 and bf16: no checks, threaded, one pass over memory.
#pragma once

#include "ops/context.h"
#include "ops/norm.h"

namespace athanor::ops::cpu {

void rms_norm(const Context& ctx, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
              const Tensor& inv_rms);
/// Takes its partial sums from the scratch; while planning only that.
void rms_norm_backward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                       const Tensor& inv_rms, const Tensor& dx, const Tensor& dw);
void residual_affine(const Context& ctx, const Tensor& m, const Tensor& r,
                     const ResidualScale& scale, const Tensor& out);
/// Takes its partial sums from the scratch; while planning only that.
void residual_affine_backward(const Context& ctx, const Tensor& dout, const Tensor& m,
                              const Tensor& r, const ResidualScale& scale, const Tensor& dm,
                              const Tensor& dr, const ResidualScale& dscale);

}  // namespace athanor::ops::cpu
