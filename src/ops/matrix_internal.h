// What ops themselves ask of matrix products beyond the door (matrix.h).
#pragma once

#include "ops/matrix.h"

namespace athanor::ops {

/// C = alpha · op(A) · op(B) + beta · Z as matmul computes it, where z has c's shape and dtype and may be c. `symmetric`
/// promises that C will be symmetric, so that half of it need not be computed.
void product(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& z,
             const Tensor& c, const MatmulOptions& options, bool symmetric);

}  // namespace athanor::ops
