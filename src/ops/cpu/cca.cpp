// Mean, norm and rotation of queries and keys (ops/cpu/cca.h).
#include "ops/cpu/cca.h"

#include <cmath>
#include <cstring>

#include "ops/cpu/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/cca.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

#ifndef ATHANOR_OPS_CPU_CCA_TYPES
#define ATHANOR_OPS_CPU_CCA_TYPES
namespace athanor::ops::cpu {

/// The rotation of one position: `half` pairs (j, j + half).
struct Rotation {
  const float* cos;
  const float* sin;
  int64_t half;
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

void mean_row(const float* c, const Heads& heads, float* z) {
  const int64_t group = heads.query / heads.key, d = heads.size;
  const auto share = splat(1.0f / static_cast<float>(group));
  for (int64_t g = 0; g < heads.key; ++g) {
    const int64_t key = (heads.query + g) * d, first = g * group * d;
    for_vectors(d, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
      const auto k = load(c + key, i, n);
      auto sum = hn::Zero(kFloat);
      for (int64_t h = first; h < first + group * d; h += d) {
        const auto mean = hn::Mul(splat(0.5f), hn::Add(load(c + h, i, n), k));
        sum = hn::Add(sum, mean);
        store(hn::Add(load(z + h, i, n), mean), z + h, i, n);
      }
      store(hn::MulAdd(sum, share, load(z + key, i, n)), z + key, i, n);
    });
  }
}

void mean_row_backward(const float* dz, const Heads& heads, float* dc) {
  const int64_t group = heads.query / heads.key, d = heads.size;
  const auto share = splat(1.0f / static_cast<float>(group));
  const auto half = splat(0.5f);
  for (int64_t g = 0; g < heads.key; ++g) {
    const int64_t key = (heads.query + g) * d, first = g * group * d;
    for_vectors(d, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
      const auto from_key = hn::Mul(load(dz + key, i, n), share);
      auto sum = hn::Zero(kFloat);
      for (int64_t h = first; h < first + group * d; h += d) {
        const auto dmean = hn::Add(load(dz + h, i, n), from_key);
        sum = hn::Add(sum, dmean);
        store(hn::MulAdd(half, dmean, load(dc + h, i, n)), dc + h, i, n);
      }
      store(hn::MulAdd(half, sum, load(dc + key, i, n)), dc + key, i, n);
    });
  }
}

/// out = rotation of factor · √d · z/√(Σz² + 1e-12); returns 1/√(Σz² + 1e-12).
float norm_rope_head(const float* z, int64_t size, float factor, const Rotation& rotation,
                     FloatRow out) {
  auto squares = hn::Zero(kFloat);
  for_vectors(size, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(z, i, n);
    squares = hn::MulAdd(v, v, squares);
  });
  const float inverse = 1.0f / std::sqrt(sum_of(squares) + 1e-12f);
  const auto scale = splat(std::sqrt(static_cast<float>(size)) * inverse * factor);
  const int64_t half = rotation.half;
  for_vectors(half, [&](int64_t j, size_t n) ATHANOR_INLINE_BODY {
    const auto a = hn::Mul(load(z, j, n), scale), b = hn::Mul(load(z + half, j, n), scale);
    const auto c = load(rotation.cos, j, n), s = load(rotation.sin, j, n);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), out, j, n);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), out, half + j, n);
  });
  for_vectors(size - 2 * half, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(z + 2 * half, i, n), scale), out, 2 * half + i, n);
  });
  return inverse;
}

/// With u the inverse rotation of dout: dz = factor·√d/ρ · (u − z·(z·u)/ρ²); returns √d/ρ · z·u.
float norm_rope_head_backward(const float* dout, const float* z, int64_t size, float factor,
                              float inverse, const Rotation& rotation, float* dz) {
  const int64_t half = rotation.half;
  auto sum = hn::Zero(kFloat);
  for_vectors(half, [&](int64_t j, size_t n) ATHANOR_INLINE_BODY {
    const auto a = load(dout, j, n), b = load(dout + half, j, n);
    const auto c = load(rotation.cos, j, n), s = load(rotation.sin, j, n);
    const auto ua = hn::MulAdd(b, s, hn::Mul(a, c)), ub = hn::NegMulAdd(a, s, hn::Mul(b, c));
    sum = hn::MulAdd(ua, load(z, j, n), sum);
    sum = hn::MulAdd(ub, load(z + half, j, n), sum);
    store(ua, dz, j, n);
    store(ub, dz + half, j, n);
  });
  for_vectors(size - 2 * half, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    const auto u = load(dout + 2 * half, i, n);
    sum = hn::MulAdd(u, load(z + 2 * half, i, n), sum);
    store(u, dz + 2 * half, i, n);
  });
  const float dot = sum_of(sum);
  const float root = std::sqrt(static_cast<float>(size)) * inverse;
  const auto scale = splat(root * factor), along = splat(dot * inverse * inverse);
  for_vectors(size, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(scale, hn::NegMulAdd(load(z, i, n), along, load(dz, i, n))), dz, i, n);
  });
  return root * dot;
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(mean_row);
HWY_EXPORT(mean_row_backward);
HWY_EXPORT(norm_rope_head);
HWY_EXPORT(norm_rope_head_backward);

Rotation rotation_at(const RopeTable& rope, int32_t position) {
  if (rope.rotary == 0) return {nullptr, nullptr, 0};
  return {rope.cos.row<float>(position), rope.sin.row<float>(position), rope.rotary / 2};
}

}  // namespace

void qk_mean(const Context& ctx, const Tensor& c, Heads heads, const Tensor& z) {
  const auto kernel = &ATHANOR_KERNEL(mean_row, ctx.isa());
  for_row_blocks(ctx, z.rows(), rows_per_task(z.cols()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(c.row<float>(t), heads, z.row<float>(t));
  });
}

void qk_mean_backward(const Context& ctx, const Tensor& dz, Heads heads, const Tensor& dc) {
  const auto kernel = &ATHANOR_KERNEL(mean_row_backward, ctx.isa());
  for_row_blocks(ctx, dz.rows(), rows_per_task(dz.cols()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(dz.row<float>(t), heads, dc.row<float>(t));
  });
}

void qk_norm_rope(const Context& ctx, const Tensor& z, Heads heads, const Tensor& temperature,
                  const RopeTable& rope, const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm) {
  const auto kernel = &ATHANOR_KERNEL(norm_rope_head, ctx.isa());
  const FloatRows query(q), key(k);
  const int64_t d = heads.size;
  for_row_blocks(ctx, z.rows(), rows_per_task(z.cols()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Rotation rotation = rotation_at(rope, positions.as<int32_t>()[t]);
      float* inverse = inv_norm.row<float>(t);
      const float* in = z.row<float>(t);
      for (int64_t h = 0; h < heads.query; ++h) {
        inverse[h] = kernel(in + h * d, d, 1.0f, rotation, query.at(t, h * d));
      }
      for (int64_t g = 0; g < heads.key; ++g) {
        const int64_t h = heads.query + g;
        inverse[h] = kernel(in + h * d, d, temperature.as<float>()[g], rotation, key.at(t, g * d));
      }
    }
  });
}

void qk_norm_rope_backward(const Context& ctx, const Tensor& dq, const Tensor& dk, const Tensor& z,
                           Heads heads, const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature) {
  const ArenaScope scope(ctx.scratch());
  const PartialSums partial(ctx.scratch(), z.rows(), 1, heads.key);
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(norm_rope_head_backward, ctx.isa());
  const int64_t d = heads.size;
  for_row_blocks(ctx, z.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    float* sums = partial.block(begin, 0);
    std::memset(sums, 0, static_cast<size_t>(heads.key) * sizeof(float));
    for (int64_t t = begin; t < end; ++t) {
      const Rotation rotation = rotation_at(rope, positions.as<int32_t>()[t]);
      const float* inverse = inv_norm.row<float>(t);
      const float* in = z.row<float>(t);
      float* out = dz.row<float>(t);
      for (int64_t h = 0; h < heads.query; ++h) {
        kernel(dq.row<float>(t) + h * d, in + h * d, d, 1.0f, inverse[h], rotation, out + h * d);
      }
      for (int64_t g = 0; g < heads.key; ++g) {
        const int64_t h = heads.query + g;
        sums[g] += kernel(dk.row<float>(t) + g * d, in + h * d, d, temperature.as<float>()[g],
                          inverse[h], rotation, out + h * d);
      }
    }
  });
  partial.add_to(ctx, 0, dtemperature.as<float>(), 1, nullptr);
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
