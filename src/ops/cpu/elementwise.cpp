#include "ops/cpu/elementwise.h"

#include "ops/cpu/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

void convert_row(FloatRow from, FloatRow to, int64_t cols) {
  for_vectors(cols,
              [&](int64_t c, size_t n) ATHANOR_INLINE_BODY { store(load(from, c, n), to, c, n); });
}

void fill_row(FloatRow to, int64_t cols, float value) {
  for_vectors(cols,
              [&](int64_t c, size_t n) ATHANOR_INLINE_BODY { store(splat(value), to, c, n); });
}

void add_row(FloatRow from, FloatRow to, int64_t cols) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Add(load(to, c, n), load(from, c, n)), to, c, n);
  });
}

void column_sums(const FloatRows& dy, int64_t begin, int64_t end, int64_t cols, float* sums) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    auto sum = hn::Zero(kFloat);
    for (int64_t t = begin; t < end; ++t) sum = hn::Add(sum, load(dy[t], c, n));
    store(sum, sums, c, n);
  });
}

double squares(const float* x, int64_t count) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  auto sum0 = hn::Zero(wide), sum1 = hn::Zero(wide);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::PromoteTo(wide, hn::LoadU(narrow, x + i));
    const auto b = hn::PromoteTo(wide, hn::LoadU(narrow, x + i + lanes));
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(sum0, sum1)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(convert_row);
HWY_EXPORT(fill_row);
HWY_EXPORT(add_row);
HWY_EXPORT(column_sums);
HWY_EXPORT(squares);

/// Tiles of a tensor (of all of them, where an op has two): long pieces of its memory where it is
/// contiguous, else rows.
template <class Body>
void for_tiles(const Context& ctx, int64_t rows, int64_t cols, bool contiguous, Body body) {
  if (contiguous) {
    cols *= rows;
    rows = 1;
  }
  if (rows == 1) {
    for_row_blocks(ctx, cols, rows_per_task(1),
                   [&](int64_t begin, int64_t end) { body(0, begin, end - begin); });
    return;
  }
  for_row_blocks(ctx, rows, rows_per_task(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r, 0, cols);
  });
}

}  // namespace

RowKernel convert_kernel(Isa isa) { return &ATHANOR_KERNEL(convert_row, isa); }
RowKernel add_kernel(Isa isa) { return &ATHANOR_KERNEL(add_row, isa); }

void convert(const Context& ctx, const Tensor& from, const Tensor& to) {
  const RowKernel kernel = convert_kernel(ctx.isa());
  const FloatRows source(from), target(to);
  for_tiles(ctx, to.rows(), to.cols(), from.contiguous() && to.contiguous(),
            [&](int64_t r, int64_t c, int64_t n) { kernel(source.at(r, c), target.at(r, c), n); });
}

void fill(const Context& ctx, const Tensor& t, float value) {
  const auto kernel = &ATHANOR_KERNEL(fill_row, ctx.isa());
  const FloatRows target(t);
  for_tiles(ctx, t.rows(), t.cols(), t.contiguous(),
            [&](int64_t r, int64_t c, int64_t n) { kernel(target.at(r, c), n, value); });
}

void add(const Context& ctx, const Tensor& from, const Tensor& to) {
  const RowKernel kernel = add_kernel(ctx.isa());
  const FloatRows source(from), target(to);
  for_tiles(ctx, to.rows(), to.cols(), from.contiguous() && to.contiguous(),
            [&](int64_t r, int64_t c, int64_t n) { kernel(source.at(r, c), target.at(r, c), n); });
}

void accumulate_column_sums(const Context& ctx, const Tensor& dy, const Tensor& db) {
  const ArenaScope scope(ctx.scratch());
  const PartialSums partial(ctx.scratch(), dy.rows(), 1, dy.cols());
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(column_sums, ctx.isa());
  const FloatRows rows(dy);
  for_row_blocks(ctx, dy.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    kernel(rows, begin, end, dy.cols(), partial.block(begin, 0));
  });
  partial.add_to(ctx, 0, db.as<float>(), 1, nullptr);
}

void block_squares(const Context& ctx, const Tensor& x, int64_t block, std::span<double> sums) {
  const auto kernel = &ATHANOR_KERNEL(squares, ctx.isa());
  const float* data = x.as<float>();
  for_row_blocks(ctx, x.numel(), 4 * block, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += block) {
      sums[i / block] = kernel(data + i, i + block < end ? block : end - i);
    }
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
