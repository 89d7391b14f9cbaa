// Matrix products. Weights are packed once per optimizer step; activations are read as they lie.
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace athanor::ops {

/// The right-hand side B of y[t, n] = Σ_k x[t, k] · B[n, k], in the layout the kernels read: panels of 16 columns n;
/// inside a panel bf16 as [k/2][16][2] (pairs of k side by side, what VNNI, AMX and AVX-512 bf16 want), f32 and f64 as
/// [k][16]. n is padded to 16 and k to 2 with zeros. Opaque outside ops.
struct PackedMatrix {
  DType dtype = DType::kF32;
  int64_t n = 0;  ///< columns of the result
  int64_t k = 0;  ///< summed dimension
  std::byte* data = nullptr;

  static size_t bytes(DType dtype, int64_t n, int64_t k);
  /// Space for an n×k right-hand side from `arena`; contents undefined until packed.
  static PackedMatrix allocate(Arena& arena, DType dtype, int64_t n, int64_t k);
  bool empty() const { return data == nullptr; }
};

/// Packs w [n, k] (real or act; converted to out.dtype) as B: y = x · wᵀ.
void pack(Context& ctx, const Tensor& w, PackedMatrix& out);
/// Packs w [k', n'] as B of y = x · w (out.n = n' = w.cols(), out.k = k' = w.rows()): what input gradients need.
void pack_transposed(Context& ctx, const Tensor& w, PackedMatrix& out);

/// y[t, n] = x[t, k] · Bᵀ (+ bias, real [n] or empty). x act or real (converted to w.dtype where it differs), y act or real;
/// rows of x and y may be strided. Accumulation in f32 (f64 for f64) along k in a fixed order.
void linear(Context& ctx, const Tensor& x, const PackedMatrix& w, const Tensor& y,
            const Tensor& bias = {});

/// Weight gradient: dw[n, k] (real) accumulates Σ_t dy[t, n] · x[t, k]; products in `compute` (bf16 rounds both
/// factors), sums in f32/f64 in a fixed order of t. dy and x act or real. t = 0 leaves dw alone.
void accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                      const Tensor& dw);

/// One product per group: rows [offsets[g], offsets[g+1]) of x times w[g]. offsets has w.size() + 1 entries, rising from
/// 0; an empty group costs nothing. Rows of y past offsets.back() are left alone.
void grouped_linear(Context& ctx, const Tensor& x, std::span<const int64_t> offsets,
                    std::span<const PackedMatrix> w, const Tensor& y);
/// dw[g] (real [groups, n, k]) accumulates the outer products of group g's rows.
void grouped_accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                              std::span<const int64_t> offsets, const Tensor& dw);

/// dw[b] (real [blocks, n, k]) accumulates the outer products of the blocks of columns: columns [b·n, (b+1)·n) of dy with
/// [b·k, (b+1)·k) of x.
void block_accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                            const Tensor& dw);

/// C[m, n] = alpha · op(A) · op(B) + beta · C for plain (unpacked) matrices; real C, A and B act or real, products in
/// `compute`. The transposes say that A is stored [k, m], B stored [n, k].
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  double beta = 0.0;
};
void matmul(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& c,
            const MatmulOptions& options = {});

/// The orthogonal factor by Newton–Schulz (zaya1.md §6.3): X = G/max(‖G‖_F, 1e-7), transposed where rows > cols, then
/// `steps` times X ← aX + (bA + cA²)X with A = XXᵀ, (a, b, c) = (3.4445, −4.7750, 2.0315). g and out real [rows, cols],
/// out may be g; `compute` is the dtype of the products (f32, bf16 or f64).
void newton_schulz(Context& ctx, DType compute, const Tensor& g, const Tensor& out, int steps = 5);
/// What its products come to, those with a symmetric result counted as half and the diagonal.
double newton_schulz_flops(int64_t rows, int64_t cols, int steps);

/// Multiplications per second ×2 of the machine's matrix unit, measured for `seconds` on all threads of ctx.
struct MatrixCeiling {
  double register_flops = 0;  ///< operands stay in registers (tiles)
  double cache_flops = 0;     ///< operands stream from L1/L2
};
MatrixCeiling measure_matrix_ceiling(Context& ctx, DType compute, double seconds);

}  // namespace athanor::ops
