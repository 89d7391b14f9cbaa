#include "ops/cpu/update.h"

#include "base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/update.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

#ifndef ATHANOR_OPS_CPU_UPDATE_FACTORS
#define ATHANOR_OPS_CPU_UPDATE_FACTORS
namespace athanor::ops::cpu {

/// What AdamW multiplies with, worked out in double.
struct AdamWFactors {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inverse_square_correction, epsilon, decay, step;
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

void adamw_piece(float* p, const float* g, float* m, float* v, int64_t count,
                 const AdamWFactors& f) {
  for_vectors(count, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    const auto grad = hn::Mul(load(g, i, n), splat(f.gradient_scale));
    const auto m1 =
        hn::MulAdd(splat(f.beta1), load(m, i, n), hn::Mul(splat(f.one_minus_beta1), grad));
    const auto v1 = hn::MulAdd(splat(f.beta2), load(v, i, n),
                               hn::Mul(hn::Mul(splat(f.one_minus_beta2), grad), grad));
    store(m1, m, i, n);
    store(v1, v, i, n);
    const auto root = hn::Sqrt(hn::Mul(v1, splat(f.inverse_square_correction)));
    const auto update = hn::Div(m1, hn::Add(root, splat(f.epsilon)));
    const auto decayed = hn::Mul(load(p, i, n), splat(f.decay));
    store(hn::NegMulAdd(splat(f.step), update, decayed), p, i, n);
  });
}

void momentum_piece(const float* g, float mu, float scale, int64_t count, float* momentum,
                    float* nesterov) {
  for_vectors(count, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    const auto grad = hn::Mul(load(g, i, n), splat(scale));
    const auto m1 = hn::MulAdd(splat(mu), load(momentum, i, n), grad);
    store(m1, momentum, i, n);
    store(hn::MulAdd(splat(mu), m1, grad), nesterov, i, n);
  });
}

void apply_piece(float* p, const float* o, float decay, float step, int64_t count) {
  for_vectors(count, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    store(hn::NegMulAdd(splat(step), load(o, i, n), hn::Mul(load(p, i, n), splat(decay))), p, i, n);
  });
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(adamw_piece);
HWY_EXPORT(momentum_piece);
HWY_EXPORT(apply_piece);

}  // namespace

void adamw(const Context& ctx, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options) {
  const double step = static_cast<double>(options.step);
  const double mean_correction = 1.0 - math::pow(options.beta1, step);
  const double square_correction = 1.0 - math::pow(options.beta2, step);
  const AdamWFactors factors{
      .gradient_scale = static_cast<float>(options.gradient_scale),
      .beta1 = static_cast<float>(options.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - options.beta1),
      .beta2 = static_cast<float>(options.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
      .inverse_square_correction = static_cast<float>(1.0 / square_correction),
      .epsilon = static_cast<float>(options.epsilon),
      .decay = static_cast<float>(1.0 - options.learning_rate * options.weight_decay),
      .step = static_cast<float>(options.learning_rate / mean_correction)};
  const auto kernel = &ATHANOR_KERNEL(adamw_piece, ctx.isa());
  float *pp = p.as<float>(), *mm = m.as<float>(), *vv = v.as<float>();
  const float* gg = g.as<float>();
  for_row_blocks(ctx, p.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
    kernel(pp + begin, gg + begin, mm + begin, vv + begin, end - begin, factors);
  });
}

void muon_momentum(const Context& ctx, const Tensor& g, double mu, double gradient_scale,
                   const Tensor& momentum, const Tensor& nesterov) {
  const auto kernel = &ATHANOR_KERNEL(momentum_piece, ctx.isa());
  const auto scale = static_cast<float>((1.0 - mu) * gradient_scale);
  const float* gg = g.as<float>();
  float *mm = momentum.as<float>(), *nn = nesterov.as<float>();
  for_row_blocks(ctx, g.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
    kernel(gg + begin, static_cast<float>(mu), scale, end - begin, mm + begin, nn + begin);
  });
}

void muon_apply(const Context& ctx, const Tensor& p, const Tensor& o, double decay, double step) {
  const auto kernel = &ATHANOR_KERNEL(apply_piece, ctx.isa());
  float* pp = p.as<float>();
  const float* oo = o.as<float>();
  for_row_blocks(ctx, p.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
    kernel(pp + begin, oo + begin, static_cast<float>(decay), static_cast<float>(step),
           end - begin);
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
