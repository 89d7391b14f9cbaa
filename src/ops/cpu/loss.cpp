#include "ops/cpu/loss.h"

#include <algorithm>
#include <limits>

#include "base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

float largest_in_row(const float* x, int64_t cols) {
  const auto lowest = splat(-std::numeric_limits<float>::infinity());
  FloatVector top[4] = {lowest, lowest, lowest, lowest};
  const int64_t step = 4 * static_cast<int64_t>(float_lanes());
  int64_t begin = 0;
  for (; begin + step <= cols; begin += step) {
    for (int64_t i = 0; i < 4; ++i) {
      top[i] = hn::Max(top[i], hn::LoadU(kFloat, x + begin + i * (step / 4)));
    }
  }
  auto last = hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]));
  for_vectors(cols - begin, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(x + begin, c, n);
    last = hn::Max(last, hn::IfThenElse(hn::FirstN(kFloat, n), v, lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(kFloat, last));
}

/// x = e^(x − top); returns the sum. Floats add up over 1024 columns at most, then doubles.
double exponentials(float* x, int64_t cols, float top) {
  constexpr int64_t kPiece = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < cols; begin += kPiece) {
    const int64_t count = cols - begin < kPiece ? cols - begin : kPiece;
    auto sum = hn::Zero(kFloat);
    for_vectors(count, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
      const auto e = exp(hn::Sub(load(x + begin, c, n), splat(top)));
      sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(kFloat, n), e));
      store(e, x + begin, c, n);
    });
    total += sum_of(sum);
  }
  return total;
}

void scale_into(const float* x, int64_t cols, float factor, FloatRow to) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(x, c, n), splat(factor)), to, c, n);
  });
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(largest_in_row);
HWY_EXPORT(exponentials);
HWY_EXPORT(scale_into);

void set(FloatRow row, int64_t i, float value) {
  if (row.bf16) {
    reinterpret_cast<bfloat16*>(row.data)[i] = bfloat16(value);
  } else {
    reinterpret_cast<float*>(row.data)[i] = value;
  }
}

}  // namespace

void cross_entropy(const Context& ctx, const Tensor& logits, const int32_t* targets, double scale,
                   const Tensor& loss, const Tensor& dlogits) {
  const auto largest = &ATHANOR_KERNEL(largest_in_row, ctx.isa());
  const auto exponentiate = &ATHANOR_KERNEL(exponentials, ctx.isa());
  const auto write = &ATHANOR_KERNEL(scale_into, ctx.isa());
  const int64_t cols = logits.cols();
  const FloatRows gradients(dlogits);
  for_row_blocks(ctx, logits.rows(), rows_per_task(cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t target = targets[t];
      float* x = logits.row<float>(t);
      if (target < 0) {
        loss.as<float>()[t] = 0.0f;
        if (!dlogits.empty()) std::fill(x, x + cols, 0.0f);
        if (!dlogits.empty()) write(x, cols, 0.0f, gradients[t]);
        continue;
      }
      const double chosen = x[target];
      const float top = largest(x, cols);
      const double sum = exponentiate(x, cols, top);
      loss.as<float>()[t] = static_cast<float>((top - chosen) + math::log(sum));
      if (dlogits.empty()) continue;
      write(x, cols, static_cast<float>(scale / sum), gradients[t]);
      set(gradients[t], target, static_cast<float>(scale * (x[target] / sum - 1.0)));
    }
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
