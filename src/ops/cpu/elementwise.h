// Fast kernels of ops/elementwise.h for f32 and bf16: no checks, threaded, one pass over memory.
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "ops/cpu/simd.h"

namespace athanor::ops::cpu {

/// The kernels of one row: to = from, converting between f32 and bf16; to += from.
using RowKernel = void (*)(FloatRow from, FloatRow to, int64_t cols);
RowKernel convert_kernel(Isa isa);
RowKernel add_kernel(Isa isa);

void convert(const Context& ctx, const Tensor& from, const Tensor& to);
void fill(const Context& ctx, const Tensor& t, float value);
void add(const Context& ctx, const Tensor& from, const Tensor& to);
/// Takes its partial sums from the scratch; while planning only that.
void accumulate_column_sums(const Context& ctx, const Tensor& dy, const Tensor& db);
void block_squares(const Context& ctx, const Tensor& x, int64_t block, std::span<double> sums);

}  // namespace athanor::ops::cpu
