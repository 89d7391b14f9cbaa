// Copies, conversions and sums.
#pragma once

#include <span>

#include "ops/context.h"

namespace athanor::ops {

/// to = from, converting between f64, f32 and bf16 (nearest, ties to even); equal rows and cols, either may be strided.
void convert(Context& ctx, const Tensor& from, const Tensor& to);
void fill(Context& ctx, const Tensor& t, double value);
/// to += from (real, real or act); equal rows and cols, either may be strided.
void add(Context& ctx, const Tensor& from, const Tensor& to);
/// db[n] (real) accumulates Σ_t dy[t, n], dy act or real.
void accumulate_column_sums(Context& ctx, const Tensor& dy, const Tensor& db);

/// Norms are summed over fixed blocks of the flat parameter space so that shards cut at block edges agree by bit.
constexpr int64_t kNormBlock = 4096;
/// sums[i] = Σ x² over block i of kNormBlock elements (the last may be short); x real, contiguous, its start at a block
/// edge; sums.size() = ceil(numel / kNormBlock). A NaN or infinity in x shows in its block.
void block_squares(Context& ctx, const Tensor& x, std::span<double> sums);
/// The sum of `values` as a fixed binary tree over their indices (pairs at distance 1, 2, 4, …).
double tree_sum(std::span<const double> values);

}  // namespace athanor::ops
