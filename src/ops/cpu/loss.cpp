#include "ops/cpu/loss.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/math.h"
#include "ops/cpu/matrix_driver.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

#ifndef ATHANOR_OPS_CPU_LOSS_TYPES
#define ATHANOR_OPS_CPU_LOSS_TYPES
namespace athanor::ops::cpu {

/// One row of one tile of logits.
struct LogitRow {
  const float* x;
  int64_t count;
  float reference;  ///< r
  FloatRow e;       ///< data null: not wanted
  float sum, top;   ///< results: Σ e, the largest x
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

void head_row(LogitRow& row) {
  const auto reference = splat(row.reference);
  const auto lowest = splat(-std::numeric_limits<float>::infinity());
  auto sum = hn::Zero(kFloat), top = lowest;
  for_vectors(row.count, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto used = hn::FirstN(kFloat, n);
    const auto x = load(row.x, c, n);
    const auto e = exp(hn::Sub(x, reference));
    top = hn::Max(top, hn::IfThenElse(used, x, lowest));
    sum = hn::Add(sum, hn::IfThenElseZero(used, e));
    if (row.e.data != nullptr) store(e, row.e, c, n);
  });
  row.sum = sum_of(sum);
  row.top = hn::GetLane(hn::MaxOfLanes(kFloat, top));
}

/// The exponential of one logit, as head_row has it.
float head_exponential(float x) { return hn::GetLane(exp(splat(x))); }

void scale_row(FloatRow from, int64_t cols, float factor, FloatRow to) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(from, c, n), splat(factor)), to, c, n);
  });
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(head_row);
HWY_EXPORT(head_exponential);
HWY_EXPORT(scale_row);

/// A tile of logits is 256 KiB: with the panels that made it, it stays in a second-level cache.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 512;
/// r may lie so far below the largest logit, and by its own rounding above it, without S or scale/S leaving f32.
constexpr float kFarthest = 40.0F;
constexpr float kNearest = -1.0F;

int64_t blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

float element(FloatRow row, int64_t i) {
  return row.bf16 ? static_cast<float>(reinterpret_cast<const bfloat16*>(row.data)[i])
                  : reinterpret_cast<const float*>(row.data)[i];
}

void set(FloatRow row, int64_t i, float value) {
  if (row.bf16) {
    reinterpret_cast<bfloat16*>(row.data)[i] = bfloat16(value);
  } else {
    reinterpret_cast<float*>(row.data)[i] = value;
  }
}

/// h · row `n` of the packed matrix.
float packed_dot(FloatRow h, const PackedMatrix& w, int64_t n) {
  const bool bf16 = w.dtype == DType::kBF16;
  const std::byte* panel = w.data + n / kPanelColumns * panel_bytes(w.dtype, w.k);
  const int64_t lane = n % kPanelColumns;
  float sum = 0;
  for (int64_t k = 0; k < w.k; ++k) {
    const int64_t at = bf16 ? (k / 2 * kPanelColumns + lane) * 2 + k % 2 : k * kPanelColumns + lane;
    sum += element(h, k) * element({const_cast<std::byte*>(panel), bf16}, at);
  }
  return sum;
}

/// What is known of each row of one call.
struct HeadRows {
  float *reference, *chosen;  ///< r, x_target
  float* weight;              ///< e_target
  float *sums, *tops;         ///< [row][tile]

  HeadRows(Arena& arena, int64_t rows, int64_t tiles)
      : reference(arena.tensor(DType::kF32, {rows}).as<float>()),
        chosen(arena.tensor(DType::kF32, {rows}).as<float>()),
        weight(arena.tensor(DType::kF32, {rows}).as<float>()),
        sums(arena.tensor(DType::kF32, {rows, tiles}).as<float>()),
        tops(arena.tensor(DType::kF32, {rows, tiles}).as<float>()) {}
};

}  // namespace

void head_exponentials(const Context& ctx, const Tensor& h, const PackedMatrix& head,
                       const int32_t* targets, double scale, const Tensor& loss, const Tensor& e,
                       std::span<float> factor) {
  const MatrixKernel& kernel = matrix_kernel(ctx.isa(), head.dtype);
  const int64_t rows = h.rows(), tiles = blocks(head.n, kTileColumns);
  const int64_t lines = lines_of(kernel.compute, head.k), row_bytes = lines * 4;
  const ArenaScope scope(ctx.scratch());
  const HeadRows known(ctx.scratch(), rows, tiles);
  auto* left =
      static_cast<std::byte*>(ctx.scratch().allocate(static_cast<size_t>(rows * row_bytes)));
  const Tensor tile_memory =
      ctx.scratch().tensor(DType::kF32, {ctx.threads().count(), kTileRows * kTileColumns});
  const size_t product_bytes =
      (kernel.scratch_bytes(kTileRows, kTileColumns, lines) + 63) / 64 * 64;
  auto* product_memory = static_cast<std::byte*>(
      ctx.scratch().allocate(product_bytes * static_cast<size_t>(ctx.threads().count())));
  if (ctx.planning()) return;
  const auto row_kernel = &ATHANOR_KERNEL(head_row, ctx.isa());
  const auto exponential = &ATHANOR_KERNEL(head_exponential, ctx.isa());
  const FloatRows inputs(h), exponentials(e);

  convert_rows(ctx, kernel, h, left, row_bytes);
  for_row_blocks(ctx, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (targets[t] >= 0) known.reference[t] = packed_dot(inputs[t], head, targets[t]);
    }
  });

  const auto use_up = [&](const float* x, int64_t t, int64_t tile, int64_t first, int64_t count) {
    const FloatRow to = e.empty() ? FloatRow{} : exponentials[t].from(first);
    if (targets[t] < 0) {
      for (int64_t c = 0; c < count && to.data != nullptr; ++c) set(to, c, 0.0F);
      return;
    }
    LogitRow row{x, count, known.reference[t], to, 0, 0};
    row_kernel(row);
    known.sums[t * tiles + tile] = row.sum;
    known.tops[t * tiles + tile] = row.top;
    const int64_t target = targets[t] - first;
    if (target < 0 || target >= count) return;
    known.chosen[t] = x[target];
    known.weight[t] = exponential(x[target] - known.reference[t]);
  };
  const auto compute_tiles = [&] {
    const int64_t down = blocks(rows, kTileRows);
    ctx.threads().run(tiles * down, [&](int64_t task, int thread) {
      // Neighbours in time share the panels.
      const int64_t tile = task / down, first = tile * kTileColumns;
      const int64_t row = task % down * kTileRows;
      const int64_t count = std::min(kTileRows, rows - row);
      const int64_t columns = std::min(kTileColumns, head.n - first);
      float* x = tile_memory.row<float>(thread);
      const int64_t panel = panel_bytes(kernel.compute, head.k);
      kernel.multiply({.a = left + row * row_bytes,
                       .a_stride = row_bytes,
                       .b = head.data + first / kPanelColumns * panel,
                       .b_stride = panel,
                       .rows = count,
                       .columns = columns,
                       .lines = lines,
                       .y = reinterpret_cast<std::byte*>(x),
                       .y_stride = kTileColumns,
                       .scratch = product_memory + static_cast<size_t>(thread) * product_bytes});
      for (int64_t i = 0; i < count; ++i) {
        use_up(x + i * kTileColumns, row + i, tile, first, columns);
      }
    });
  };
  const auto top_of = [&](int64_t t) {
    return *std::max_element(known.tops + t * tiles, known.tops + (t + 1) * tiles);
  };

  compute_tiles();
  std::atomic<bool> again = false;
  for_row_blocks(ctx, rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (targets[t] < 0) continue;
      const float distance = top_of(t) - known.reference[t];
      if (distance >= kNearest && distance <= kFarthest) continue;
      known.reference[t] = top_of(t);
      again = true;
    }
  });
  if (again) compute_tiles();

  for_row_blocks(ctx, rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      double sum = 0;
      for (int64_t b = 0; b < tiles && targets[t] >= 0; ++b) sum += known.sums[t * tiles + b];
      loss.as<float>()[t] =
          targets[t] < 0
              ? 0.0F
              : static_cast<float>(math::log(sum) + (static_cast<double>(known.reference[t]) -
                                                     static_cast<double>(known.chosen[t])));
      if (e.empty()) continue;
      factor[static_cast<size_t>(t)] = targets[t] < 0 ? 0.0F : static_cast<float>(scale / sum);
      if (targets[t] >= 0) {
        set(exponentials[t], targets[t], static_cast<float>(known.weight[t] - sum));
      }
    }
  });
}

void scale_rows(const Context& ctx, const Tensor& from, std::span<const float> factor,
                const Tensor& to) {
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(scale_row, ctx.isa());
  const FloatRows source(from), target(to);
  for_row_blocks(ctx, from.rows(), rows_per_task(from.cols()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernel(source[t], from.cols(), factor[static_cast<size_t>(t)], target[t]);
    }
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
