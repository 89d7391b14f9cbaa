// Normal numbers, side by side in a vector (ops/random.h).
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace athanor::ops::cpu {

void fill_normal(const Context& ctx, const Tensor& t, double deviation, uint64_t seed,
                 const char* name);

}  // namespace athanor::ops::cpu
