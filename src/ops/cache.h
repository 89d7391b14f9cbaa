// Keys and values of sequences being decoded.
#pragma once

#include "ops/context.h"

namespace athanor::ops {

/// Forgets the first `drop` rows of t: rows [drop, drop + keep) move to the beginning. t
/// contiguous.
void drop_rows(Context& ctx, const Tensor& t, int64_t drop, int64_t keep);

}  // namespace athanor::ops
