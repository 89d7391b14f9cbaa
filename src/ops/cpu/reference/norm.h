// Plain twins of ops/norm.h: no checks, one thread, double inside.
#pragma once

#include "ops/norm.h"

namespace athanor::ops::reference {

void rms_norm(const Tensor& x, const Tensor& w, double eps, const Tensor& y, const Tensor& inv_rms);
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& inv_rms,
                       const Tensor& dx, const Tensor& dw);
void residual_affine(const Tensor& m, const Tensor& r, const ResidualScale& scale,
                     const Tensor& out);
void residual_affine_backward(const Tensor& dout, const Tensor& m, const Tensor& r,
                              const ResidualScale& scale, const Tensor& dm, const Tensor& dr,
                              const ResidualScale& dscale);

}  // namespace athanor::ops::reference
