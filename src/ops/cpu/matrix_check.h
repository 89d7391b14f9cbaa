// A kernel that cannot be trusted blindly (a tile unit behind a hypervisor) shows that it computes.
#pragma once

#include "ops/cpu/matrix_kernel.h"

namespace athanor::ops::cpu {

/// Multiplies two small matrices of small integers, of which every sum is exact, and compares each
/// bit.
bool computes_exactly(const MatrixKernel& kernel);

}  // namespace athanor::ops::cpu
