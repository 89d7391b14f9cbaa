// Plain matrix products: what the fast kernels are compared with, and the only kernels of f64.
#pragma once

#include "ops/matrix.h"

namespace athanor::ops::reference {

/// Packs w [n, k] (or, transposed, w [k, n]) as the right-hand side out [n, k]; converts to
/// out.dtype.
void pack(const Threads& threads, const Tensor& w, bool transposed, const PackedMatrix& out);

/// As ops::linear; each sum runs along k in order, in f32 (f64 for f64). Factors are converted to
/// w.dtype.
void linear(const Threads& threads, const Tensor& x, const PackedMatrix& w, const Tensor& y,
            const Tensor& bias);

/// As ops::accumulate_outer; each sum runs along the tokens in order.
void accumulate_outer(const Threads& threads, DType compute, const Tensor& dy, const Tensor& x,
                      const Tensor& dw);

/// C = alpha · op(A) · op(B) + beta · Z, where z may be c; each sum runs along the inner dimension in order.
void matmul(const Threads& threads, DType compute, const Tensor& a, const Tensor& b,
            const Tensor& z, const Tensor& c, const MatmulOptions& options);

}  // namespace athanor::ops::reference
