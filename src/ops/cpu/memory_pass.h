// One pass over a buffer (ops/memory_rate.h), threaded.
#pragma once

#include "ops/memory_rate.h"

namespace athanor::ops::cpu {

/// Returns the bytes read plus the bytes written: of whole blocks, so that a little of the buffer may be left out.
int64_t memory_pass(const Context& ctx, MemoryAccess access, const Tensor& buffer);

}  // namespace athanor::ops::cpu
