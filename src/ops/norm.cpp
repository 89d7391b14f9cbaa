#include "ops/norm.h"

#include "ops/checks.h"
#include "ops/cpu/norm.h"
#include "ops/cpu/reference/norm.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

void check_scale(const Checks& check, const ResidualScale& scale, bool with_residual,
                 int64_t width) {
  check.real_vector("hidden_scale", scale.hidden_scale, width);
  check.real_vector("hidden_bias", scale.hidden_bias, width);
  if (!with_residual) return;
  check.real_vector("residual_scale", scale.residual_scale, width);
  check.real_vector("residual_bias", scale.residual_bias, width);
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, double eps, const Tensor& y,
              const Tensor& inv_rms) {
  const TraceSpan span(ctx, "rms_norm", [&] { return moves(x, {x, w, y, inv_rms}); });
  const Checks check("rms_norm", x);
  check.real("x", x, x.rows(), x.cols());
  check.real_vector("w", w, x.cols());
  check.real_or_act("y", y, x.rows(), x.cols());
  check.real_vector("inv_rms", inv_rms, x.rows());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::rms_norm(x, w, eps, y, inv_rms);
  } else {
    cpu::rms_norm(ctx, x, w, static_cast<float>(eps), y, inv_rms);
  }
}

void rms_norm_backward(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                       const Tensor& inv_rms, const Tensor& dx, const Tensor& dw) {
  const TraceSpan span(ctx, "rms_norm_backward",
                       [&] { return moves(x, {dy, x, w, inv_rms, dx, dx, dw, dw}); });
  const Checks check("rms_norm_backward", x);
  check.real("x", x, x.rows(), x.cols());
  check.real_or_act("dy", dy, x.rows(), x.cols());
  check.real_vector("w", w, x.cols());
  check.real_vector("inv_rms", inv_rms, x.rows());
  check.real("dx", dx, x.rows(), x.cols());
  check.real_vector("dw", dw, x.cols());
  if (runs_reference(ctx, check)) {
    if (!ctx.planning()) reference::rms_norm_backward(dy, x, w, inv_rms, dx, dw);
  } else {
    cpu::rms_norm_backward(ctx, dy, x, w, inv_rms, dx, dw);
  }
}

void residual_affine(Context& ctx, const Tensor& m, const Tensor& r, const ResidualScale& scale,
                     const Tensor& out) {
  const TraceSpan span(ctx, "residual_affine", [&] { return moves(out, {m, r, out}); });
  const Checks check("residual_affine", out);
  check.real("out", out, out.rows(), out.cols());
  check.real_or_act("m", m, out.rows(), out.cols());
  if (!r.empty()) check.real("r", r, out.rows(), out.cols());
  check_scale(check, scale, !r.empty(), out.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::residual_affine(m, r, scale, out);
  } else {
    cpu::residual_affine(ctx, m, r, scale, out);
  }
}

void residual_affine_backward(Context& ctx, const Tensor& dout, const Tensor& m, const Tensor& r,
                              const ResidualScale& scale, const Tensor& dm, const Tensor& dr,
                              const ResidualScale& dscale) {
  const TraceSpan span(ctx, "residual_affine_backward",
                       [&] { return moves(dout, {dout, m, r, dm, dr}); });
  const Checks check("residual_affine_backward", dout);
  const int64_t tokens = dout.rows(), width = dout.cols();
  check.real("dout", dout, tokens, width);
  check.real_or_act("m", m, tokens, width);
  check.real_or_act("dm", dm, tokens, width);
  check.that(r.empty() == dr.empty(), "dr goes with r");
  if (!r.empty()) {
    check.real("r", r, tokens, width);
    check.real("dr", dr, tokens, width);
  }
  check_scale(check, scale, !r.empty(), width);
  check_scale(check, dscale, !r.empty(), width);
  if (runs_reference(ctx, check)) {
    if (!ctx.planning()) reference::residual_affine_backward(dout, m, r, scale, dm, dr, dscale);
  } else {
    cpu::residual_affine_backward(ctx, dout, m, r, scale, dm, dr, dscale);
  }
}

}  // namespace athanor::ops
