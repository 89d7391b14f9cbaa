// The products of ops/matrix.h on a fast kernel: which factor is packed, converted or read as it
// lies. Tensors are f32 or bf16; shapes were checked at the door. While planning only the scratch
// is taken.
#pragma once

#include <span>

#include "ops/cpu/matrix_kernel.h"
#include "ops/matrix.h"

namespace athanor::ops::cpu {

/// Packs w [n, k], or transposed [k, n], into out.
void pack(const Context& ctx, const MatrixKernel& kernel, const Tensor& w, bool transposed,
          const PackedMatrix& out);

/// Rows [offsets[g], offsets[g+1]) of y from those of x times w[g], all groups at once; bias (f32 [n], or empty) is added to
/// every row.
void grouped_linear(const Context& ctx, const MatrixKernel& kernel, const Tensor& x,
                    std::span<const int64_t> offsets, std::span<const PackedMatrix> w,
                    const Tensor& y, const Tensor& bias);

/// dw[g] += Σ over group g's tokens of dy ⊗ x; dw is [groups · n, k].
void grouped_accumulate_outer(const Context& ctx, const MatrixKernel& kernel, const Tensor& dy,
                              const Tensor& x, std::span<const int64_t> offsets, int64_t groups,
                              const Tensor& dw);

/// dw[b] += Σ_t dy_b[t] ⊗ x_b[t] for the blocks of columns dy_b (n) and x_b (k) of dy and x; dw is [blocks · n, k].
void block_accumulate_outer(const Context& ctx, const MatrixKernel& kernel, const Tensor& dy,
                            const Tensor& x, int64_t blocks, const Tensor& dw);

/// C = alpha · op(A) · op(B) + beta · Z, where z may be c. `symmetric` says that C will be: one triangle is computed and
/// mirrored.
void matmul(const Context& ctx, const MatrixKernel& kernel, const Tensor& a, const Tensor& b,
            const Tensor& z, const Tensor& c, const MatmulOptions& options, bool symmetric);

}  // namespace athanor::ops::cpu
