// RMSNorm and the learned residual scaling, forward and backward (zaya1.md §2.1, §2.8).
#pragma once

#include "ops/context.h"

namespace athanor::ops {

/// y = w ⊙ x · inv_rms, inv_rms = 1/√(mean(x²) + eps). x real [T, D], w real [D], y act or real [T, D], inv_rms real [T].
void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, double eps, const Tensor& y,
              const Tensor& inv_rms);
/// dx accumulates, dw [D] accumulates. dy real or act.
void rms_norm_backward(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                       const Tensor& inv_rms, const Tensor& dx, const Tensor& dw);

/// The four vectors of a residual scaling, real [D] each; the input affine has no residual_* (empty tensors).
struct ResidualScale {
  Tensor hidden_scale, hidden_bias, residual_scale, residual_bias;
};

/// out = (m + b_h) ⊙ s_h + (r + b_r) ⊙ s_r; bias first, as the released weights need. m real or act [T, D]; r real or empty
/// (the input affine); out real [T, D], may be r.
void residual_affine(Context& ctx, const Tensor& m, const Tensor& r, const ResidualScale& scale,
                     const Tensor& out);
/// dm = dout ⊙ s_h (real or act); dr = dout ⊙ s_r (real, may be dout; empty with r); the four gradients in `dscale`
/// accumulate, sums over tokens in fixed blocks.
void residual_affine_backward(Context& ctx, const Tensor& dout, const Tensor& m, const Tensor& r,
                              const ResidualScale& scale, const Tensor& dm, const Tensor& dr,
                              const ResidualScale& dscale);

}  // namespace athanor::ops
