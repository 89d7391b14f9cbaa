#include "ops/cache.h"

#include <cstring>

namespace athanor::ops {

void drop_rows(Context& ctx, const Tensor& t, int64_t drop, int64_t keep) {
  require(t.contiguous() && drop >= 0 && keep >= 0 && drop + keep <= t.rows(),
          "drop_rows: rows outside the tensor");
  if (ctx.planning() || drop == 0) return;
  const size_t row = static_cast<size_t>(t.cols()) * size_of(t.dtype());
  std::memmove(t.data(), t.data() + static_cast<size_t>(drop) * row,
               static_cast<size_t>(keep) * row);
}

}  // namespace athanor::ops
