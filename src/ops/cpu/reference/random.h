// The plain twin of ops/random.h.
#pragma once

#include <cstdint>

#include "base/tensor.h"
#include "base/threads.h"

namespace athanor::ops::reference {

void fill_normal(const Threads& threads, const Tensor& t, double deviation, uint64_t seed,
                 const char* name);

}  // namespace athanor::ops::reference
