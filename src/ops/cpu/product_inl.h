// A small dense product whose operands lie in the caches, for kernels that build on one (attention). Once for each of
// Highway's targets; include after simd_inl.h.
#if defined(ATHANOR_OPS_CPU_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_OPS_CPU_PRODUCT_INL_H
#undef ATHANOR_OPS_CPU_PRODUCT_INL_H
#else
#define ATHANOR_OPS_CPU_PRODUCT_INL_H
#endif

#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// C[m, n] (+)= Σ_k A[m, k] · B[k, n]. Elements of A are broadcast, so it may lie in any order; rows of B hold whole
/// vectors, padded past `n`; of C exactly n columns are touched. Each element of C is one chain of multiply-adds along
/// k, whatever m and n are.
struct Product {
  const float* a;
  int64_t a_row, a_step;  ///< distances of neighbours in m and in k
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t m, n, k;
  bool accumulate;
};

/// Rows [row, row + kRows) and kVectors vectors of columns from `col`; the last vector has `last` columns.
template <int kRows, int kVectors>
HWY_INLINE void product_tile(const Product& p, int64_t row, int64_t col, size_t last) {
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  float* c = p.c + row * p.c_row + col;
  const auto count = [&](int v)
                         ATHANOR_INLINE_BODY { return v + 1 < kVectors ? float_lanes() : last; };
  FloatVector sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = p.accumulate ? load(c + r * p.c_row, v * lanes, count(v)) : hn::Zero(kFloat);
    }
  }
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + col;
  for (int64_t k = 0; k < p.k; ++k, a += p.a_step, b += p.b_row) {
    FloatVector factor[kVectors];
    for (int v = 0; v < kVectors; ++v) factor[v] = hn::LoadU(kFloat, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto broadcast = splat(a[r * p.a_row]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(broadcast, factor[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(sum[r][v], c + r * p.c_row, v * lanes, count(v));
  }
}

template <int kVectors>
HWY_INLINE void product_columns(const Product& p, int64_t col, size_t last) {
  // Six rows by four vectors fill 24 of 32 registers; by two, 12 of 16.
  int64_t row = 0;
  for (; row + 6 <= p.m; row += 6) product_tile<6, kVectors>(p, row, col, last);
  for (; row + 3 <= p.m; row += 3) product_tile<3, kVectors>(p, row, col, last);
  for (; row < p.m; ++row) product_tile<1, kVectors>(p, row, col, last);
}

[[maybe_unused]] static HWY_NOINLINE void product(const Product& p) {
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  constexpr int kWide = HWY_CAP_GE512 ? 4 : 2;
  int64_t col = 0;
  for (; col + kWide * lanes <= p.n; col += kWide * lanes) {
    product_columns<kWide>(p, col, float_lanes());
  }
  const int64_t rest = p.n - col;
  if (rest > 2 * lanes) {
    product_columns<3>(p, col, static_cast<size_t>(rest - 2 * lanes));
  } else if (rest > lanes) {
    product_columns<2>(p, col, static_cast<size_t>(rest - lanes));
  } else if (rest > 0) {
    product_columns<1>(p, col, static_cast<size_t>(rest));
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
