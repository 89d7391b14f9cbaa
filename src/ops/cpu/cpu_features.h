// What this CPU and this kernel of the operating system allow.
#pragma once

#include "ops/context.h"

namespace athanor::ops::cpu {

/// True when code of `isa` may run here. For kAmx the kernel is asked, once, for permission to use
/// the tile registers.
bool has(Isa isa);

}  // namespace athanor::ops::cpu
