#include "ops/elementwise.h"

#include <bit>

#include "ops/checks.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reference/elementwise.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16;
}

/// The sum of `values`, whose tree has `width` leaves, a power of two; leaves past the end are
/// absent.
double tree_sum_of(std::span<const double> values, size_t width) {
  if (width == 1) return values[0];
  const size_t half = width / 2;
  if (values.size() <= half) return tree_sum_of(values, half);
  return tree_sum_of(values.first(half), half) + tree_sum_of(values.subspan(half), half);
}

}  // namespace

void convert(Context& ctx, const Tensor& from, const Tensor& to) {
  const TraceSpan span(ctx, "convert", [&] { return moves(to, {from, to}); });
  const Checks check("convert", real_of(to.dtype()));
  check.that(!from.empty() && !to.empty() && from.rows() == to.rows() && from.cols() == to.cols(),
             "from and to must have equal rows and columns");
  check.that(is_float(from.dtype()) && is_float(to.dtype()), "F64, F32 and BF16 alone convert");
  if (ctx.planning()) return;
  const bool wide = from.dtype() == DType::kF64 || to.dtype() == DType::kF64;
  if (runs_reference(ctx, "convert", wide ? DType::kF64 : DType::kF32)) {
    reference::convert(from, to);
  } else {
    cpu::convert(ctx, from, to);
  }
}

void fill(Context& ctx, const Tensor& t, double value) {
  const TraceSpan span(ctx, "fill", [&] { return moves(t, {t}); });
  const Checks check("fill", real_of(t.dtype()));
  check.real_or_act("t", t, t.rows(), t.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::fill(t, value);
  } else {
    cpu::fill(ctx, t, static_cast<float>(value));
  }
}

void add(Context& ctx, const Tensor& from, const Tensor& to) {
  const TraceSpan span(ctx, "add", [&] { return moves(to, {from, to, to}); });
  const Checks check("add", to);
  check.real("to", to, to.rows(), to.cols());
  check.real_or_act("from", from, to.rows(), to.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::add(from, to);
  } else {
    cpu::add(ctx, from, to);
  }
}

void accumulate_column_sums(Context& ctx, const Tensor& dy, const Tensor& db) {
  const TraceSpan span(ctx, "accumulate_column_sums", [&] { return moves(dy, {dy, db, db}); });
  const Checks check("accumulate_column_sums", db);
  check.real_vector("db", db, dy.cols());
  check.real_or_act("dy", dy, dy.rows(), db.numel());
  if (runs_reference(ctx, check)) {
    if (!ctx.planning()) reference::accumulate_column_sums(dy, db);
  } else {
    cpu::accumulate_column_sums(ctx, dy, db);
  }
}

void block_squares(Context& ctx, const Tensor& x, std::span<double> sums) {
  const TraceSpan span(ctx, "block_squares", [&] { return moves(x, {x}); });
  const Checks check("block_squares", x);
  check.real_vector("x", x, x.numel());
  check.that(static_cast<int64_t>(sums.size()) == (x.numel() + kNormBlock - 1) / kNormBlock,
             "one sum for each block of kNormBlock elements");
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::block_squares(x, kNormBlock, sums);
  } else {
    cpu::block_squares(ctx, x, kNormBlock, sums);
  }
}

double tree_sum(std::span<const double> values) {
  return values.empty() ? 0.0 : tree_sum_of(values, std::bit_ceil(values.size()));
}

}  // namespace athanor::ops
