#include "ops/random.h"

#include "ops/checks.h"
#include "ops/cpu/random.h"
#include "ops/cpu/reference/random.h"
#include "ops/trace.h"

namespace athanor::ops {

void fill_normal(Context& ctx, const Tensor& t, double deviation, uint64_t seed, const char* name) {
  const TraceSpan span(ctx, "fill_normal", [&] { return moves(t, {t}); });
  const Checks check("fill_normal", t);
  check.real_vector("t", t, t.numel());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::fill_normal(ctx.threads(), t, deviation, seed, name);
  } else {
    cpu::fill_normal(ctx, t, deviation, seed, name);
  }
}

}  // namespace athanor::ops
