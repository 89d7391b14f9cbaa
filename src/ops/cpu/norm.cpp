#include "ops/cpu/norm.h"

#include <cmath>
#include <cstring>

#include "ops/cpu/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

float norm_row(const float* x, const float* w, int64_t cols, float eps, FloatRow y) {
  auto even = hn::Zero(kFloat), odd = hn::Zero(kFloat);
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(x, c, n);
    const auto sum = hn::MulAdd(v, v, even);  // two sums take turns: half the latency
    even = odd;
    odd = sum;
  });
  const float mean = sum_of(hn::Add(even, odd)) / static_cast<float>(cols);
  const float inverse = 1.0f / std::sqrt(mean + eps);
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(w, c, n), hn::Mul(load(x, c, n), splat(inverse))), y, c, n);
  });
  return inverse;
}

/// dx += s·(w ⊙ dy − x · s²·mean(w ⊙ dy ⊙ x)); dw += dy ⊙ x · s.
void norm_row_backward(FloatRow dy, const float* x, const float* w, float inverse, int64_t cols,
                       float* dx, float* dw) {
  auto even = hn::Zero(kFloat), odd = hn::Zero(kFloat);
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto sum = hn::MulAdd(hn::Mul(load(w, c, n), load(dy, c, n)), load(x, c, n), even);
    even = odd;
    odd = sum;
  });
  const float mean = sum_of(hn::Add(even, odd)) * inverse / static_cast<float>(cols);
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto d = load(dy, c, n);
    const auto normed = hn::Mul(load(x, c, n), splat(inverse));
    store(hn::MulAdd(d, normed, load(dw, c, n)), dw, c, n);
    const auto g = hn::NegMulAdd(normed, splat(mean), hn::Mul(load(w, c, n), d));
    store(hn::MulAdd(splat(inverse), g, load(dx, c, n)), dx, c, n);
  });
}

void affine_row(FloatRow m, const float* scale, const float* bias, int64_t cols, float* out) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(hn::Add(load(m, c, n), load(bias, c, n)), load(scale, c, n)), out, c, n);
  });
}

void residual_row(FloatRow m, const float* r, const float* hidden_scale, const float* hidden_bias,
                  const float* residual_scale, const float* residual_bias, int64_t cols,
                  float* out) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto hidden =
        hn::Mul(hn::Add(load(m, c, n), load(hidden_bias, c, n)), load(hidden_scale, c, n));
    const auto residual = hn::Add(load(r, c, n), load(residual_bias, c, n));
    store(hn::MulAdd(residual, load(residual_scale, c, n), hidden), out, c, n);
  });
}

/// d_input = dout ⊙ scale; sums += dout ⊙ (input + bias). d_input may be dout.
void affine_row_backward(const float* dout, FloatRow input, const float* scale, const float* bias,
                         int64_t cols, FloatRow d_input, float* sums) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto d = load(dout, c, n);
    const auto shifted = hn::Add(load(input, c, n), load(bias, c, n));
    store(hn::MulAdd(d, shifted, load(sums, c, n)), sums, c, n);
    store(hn::Mul(d, load(scale, c, n)), d_input, c, n);
  });
}

void add_to_sums(const float* d, int64_t cols, float* sums) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Add(load(sums, c, n), load(d, c, n)), sums, c, n);
  });
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(norm_row);
HWY_EXPORT(norm_row_backward);
HWY_EXPORT(affine_row);
HWY_EXPORT(residual_row);
HWY_EXPORT(affine_row_backward);
HWY_EXPORT(add_to_sums);

void clear(float* sums, int64_t count) {
  std::memset(sums, 0, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

void rms_norm(const Context& ctx, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
              const Tensor& inv_rms) {
  const auto kernel = &ATHANOR_KERNEL(norm_row, ctx.isa());
  const FloatRows out(y);
  for_row_blocks(ctx, x.rows(), rows_per_task(x.cols()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      inv_rms.as<float>()[t] = kernel(x.row<float>(t), w.as<float>(), x.cols(), eps, out[t]);
    }
  });
}

void rms_norm_backward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                       const Tensor& inv_rms, const Tensor& dx, const Tensor& dw) {
  const int64_t cols = x.cols();
  const ArenaScope scope(ctx.scratch());
  const PartialSums partial(ctx.scratch(), x.rows(), 1, cols);
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(norm_row_backward, ctx.isa());
  const FloatRows dout(dy);
  for_row_blocks(ctx, x.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    float* sums = partial.block(begin, 0);
    clear(sums, cols);
    for (int64_t t = begin; t < end; ++t) {
      kernel(dout[t], x.row<float>(t), w.as<float>(), inv_rms.as<float>()[t], cols,
             dx.row<float>(t), sums);
    }
  });
  partial.add_to(ctx, 0, dw.as<float>(), 1, nullptr);
}

void residual_affine(const Context& ctx, const Tensor& m, const Tensor& r,
                     const ResidualScale& scale, const Tensor& out) {
  const auto affine = &ATHANOR_KERNEL(affine_row, ctx.isa());
  const auto residual = &ATHANOR_KERNEL(residual_row, ctx.isa());
  const FloatRows hidden(m);
  const int64_t cols = out.cols();
  const float* hidden_scale = scale.hidden_scale.as<float>();
  const float* hidden_bias = scale.hidden_bias.as<float>();
  for_row_blocks(ctx, out.rows(), rows_per_task(cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (r.empty()) {
        affine(hidden[t], hidden_scale, hidden_bias, cols, out.row<float>(t));
      } else {
        residual(hidden[t], r.row<float>(t), hidden_scale, hidden_bias,
                 scale.residual_scale.as<float>(), scale.residual_bias.as<float>(), cols,
                 out.row<float>(t));
      }
    }
  });
}

void residual_affine_backward(const Context& ctx, const Tensor& dout, const Tensor& m,
                              const Tensor& r, const ResidualScale& scale, const Tensor& dm,
                              const Tensor& dr, const ResidualScale& dscale) {
  const int64_t cols = dout.cols();
  const ArenaScope scope(ctx.scratch());
  // Σ dout, Σ dout ⊙ (m + b_h), Σ dout ⊙ (r + b_r)
  const PartialSums partial(ctx.scratch(), dout.rows(), 3, cols);
  if (ctx.planning()) return;
  const auto affine = &ATHANOR_KERNEL(affine_row_backward, ctx.isa());
  const auto add_row = &ATHANOR_KERNEL(add_to_sums, ctx.isa());
  const FloatRows hidden(m), d_hidden(dm);
  const float* hidden_scale = scale.hidden_scale.as<float>();
  for_row_blocks(ctx, dout.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    clear(partial.block(begin, 0), 3 * cols);
    for (int64_t t = begin; t < end; ++t) {
      const float* d = dout.row<float>(t);
      add_row(d, cols, partial.block(begin, 0));
      affine(d, hidden[t], hidden_scale, scale.hidden_bias.as<float>(), cols, d_hidden[t],
             partial.block(begin, 1));
      if (r.empty()) continue;
      // Last: dr may be dout.
      affine(d, FloatRows(r)[t], scale.residual_scale.as<float>(), scale.residual_bias.as<float>(),
             cols, FloatRows(dr)[t], partial.block(begin, 2));
    }
  });
  partial.add_to(ctx, 1, dscale.hidden_scale.as<float>(), 1, nullptr);
  partial.add_to(ctx, 0, dscale.hidden_bias.as<float>(), 1, hidden_scale);
  if (r.empty()) return;
  partial.add_to(ctx, 2, dscale.residual_scale.as<float>(), 1, nullptr);
  partial.add_to(ctx, 0, dscale.residual_bias.as<float>(), 1, scale.residual_scale.as<float>());
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
