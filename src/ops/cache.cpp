#include "ops/cache.h"

#include <cstring>

#include "ops/trace.h"

namespace athanor::ops {
namespace {

OpWork dropping(const Tensor& t, int64_t keep) {
  const double row = static_cast<double>(t.cols()) * static_cast<double>(size_of(t.dtype()));
  return {.shape = {keep, t.cols()}, .bytes = 2 * static_cast<double>(keep) * row};
}

}  // namespace

void drop_rows(Context& ctx, const Tensor& t, int64_t drop, int64_t keep) {
  const TraceSpan span(ctx, "drop_rows", [&] { return dropping(t, keep); });
  require(t.contiguous() && drop >= 0 && keep >= 0 && drop + keep <= t.rows(),
          "drop_rows: rows outside the tensor");
  if (ctx.planning() || drop == 0) return;
  const size_t row = static_cast<size_t>(t.cols()) * size_of(t.dtype());
  std::memmove(t.data(), t.data() + static_cast<size_t>(drop) * row,
               static_cast<size_t>(keep) * row);
}

}  // namespace athanor::ops
