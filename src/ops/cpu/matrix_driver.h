// Spreads matrix products over threads: cuts them into blocks and finds the scratch. Knows no
// instruction set.
#pragma once

#include <span>

#include "ops/cpu/matrix_kernel.h"
#include "ops/matrix.h"

namespace athanor::ops::cpu {

/// Takes from ctx's arena the scratch with which `run_products` computes products of at most rows ×
/// columns × lines: one piece a thread.
std::byte* product_scratch(const Context& ctx, const MatrixKernel& kernel, int64_t rows,
                           int64_t columns, int64_t lines);

/// Computes all `products`, which must not overlap in y. Blocks are cut so that every thread finds
/// work; no bit depends on how. With `lower_triangle` the blocks that lie wholly above y's diagonal
/// are left out.
void run_products(const Context& ctx, const MatrixKernel& kernel,
                  std::span<const MatrixBlock> products, std::byte* scratch,
                  bool lower_triangle = false);

/// A matrix on its way into panels: its rows become the panels' columns, or (transposed) its
/// columns do.
struct PackJob {
  PackBlock block;
  bool transposed = false;
};
/// `from` [rows, cols], f32 or bf16, as panels at `to`.
PackJob pack_job(const Tensor& from, bool transposed, std::byte* to, int64_t to_stride);
/// Does all jobs on all threads.
void run_packs(const Context& ctx, const MatrixKernel& kernel, std::span<const PackJob> jobs);

/// Copies `from` to rows of `to_stride` bytes in the kernel's dtype, each padded with zeros, on all
/// threads.
void convert_rows(const Context& ctx, const MatrixKernel& kernel, const Tensor& from, std::byte* to,
                  int64_t to_stride);

}  // namespace athanor::ops::cpu
