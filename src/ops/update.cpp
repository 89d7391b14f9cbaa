#include "ops/update.h"

#include "ops/checks.h"
#include "ops/cpu/reference/update.h"
#include "ops/cpu/update.h"
#include "ops/trace.h"

namespace athanor::ops {

void adamw(Context& ctx, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options) {
  const TraceSpan span(ctx, "adamw", [&] { return moves(p, {p, p, g, m, m, v, v}); });
  const Checks check("adamw", p);
  for (const auto& [name, t] : {std::pair{"p", p}, {"g", g}, {"m", m}, {"v", v}}) {
    check.real_vector(name, t, p.numel());
  }
  check.that(options.step >= 1, "steps count from 1");
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::adamw(p, g, m, v, options);
  } else {
    cpu::adamw(ctx, p, g, m, v, options);
  }
}

void muon_momentum(Context& ctx, const Tensor& g, double mu, double gradient_scale,
                   const Tensor& momentum, const Tensor& nesterov) {
  const TraceSpan span(ctx, "muon_momentum",
                       [&] { return moves(g, {g, momentum, momentum, nesterov}); });
  const Checks check("muon_momentum", g);
  check.real_vector("g", g, g.numel());
  check.real_vector("momentum", momentum, g.numel());
  check.real_vector("nesterov", nesterov, g.numel());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::muon_momentum(g, mu, gradient_scale, momentum, nesterov);
  } else {
    cpu::muon_momentum(ctx, g, mu, gradient_scale, momentum, nesterov);
  }
}

void muon_apply(Context& ctx, const Tensor& p, const Tensor& o, double decay, double step) {
  const TraceSpan span(ctx, "muon_apply", [&] { return moves(p, {p, p, o}); });
  const Checks check("muon_apply", p);
  check.real_vector("p", p, p.numel());
  check.real_vector("o", o, p.numel());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::muon_apply(p, o, decay, step);
  } else {
    cpu::muon_apply(ctx, p, o, decay, step);
  }
}

}  // namespace athanor::ops
