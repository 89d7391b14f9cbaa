// What ops themselves ask of matrix products beyond the door (matrix.h).
#pragma once

#include "ops/matrix.h"

namespace athanor::ops {

/// As matmul; `symmetric` promises that C will be symmetric, so that half of it need not be
/// computed.
void product(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& c,
             const MatmulOptions& options, bool symmetric);

}  // namespace athanor::ops
