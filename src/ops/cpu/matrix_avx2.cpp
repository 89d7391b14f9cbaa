// Products of f32, and of bf16 widened in registers, with AVX2 and FMA.
#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/cpu/matrix_families.h"
#include "ops/cpu/matrix_pack_inl.h"

namespace athanor::ops::cpu {
namespace {

struct Avx2Sums {
  // 4 rows by 2 registers of 8 columns: 8 sums cover the latency of the multiply-add, the factors
  // have the other 8.
  static constexpr int kRows = 4;
  static constexpr int kPanels = 1;
  struct Sum {
    __m256 low;
    __m256 high;
  };

  static Sum zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Sum load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void store(float* p, const Sum& v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static Sum add(const Sum& a, const Sum& b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Sum scale(const Sum& a, float factor) {
    const __m256 f = _mm256_set1_ps(factor);
    return {_mm256_mul_ps(a.low, f), _mm256_mul_ps(a.high, f)};
  }
  static void store_bf16(uint16_t* p, const Sum& v) {
    float values[kPanelColumns];
    store(values, v);
    for (int i = 0; i < kPanelColumns; ++i) p[i] = bf16_bits(values[i]);
  }
};

struct FloatOps : Avx2Sums {
  static constexpr DType kCompute = DType::kF32;
  using Left = __m256;
  using Right = Sum;

  static Left left(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return _mm256_set1_ps(value);
  }
  static Right right(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static void multiply_add(Sum& sum, Left a, const Right& b) {
    sum.low = _mm256_fmadd_ps(a, b.low, sum.low);
    sum.high = _mm256_fmadd_ps(a, b.high, sum.high);
  }
};

struct WidenedOps : Avx2Sums {
  static constexpr DType kCompute = DType::kBF16;
  struct Left {
    __m256 even;
    __m256 odd;
  };
  struct Right {
    Left low;
    Left high;
  };

  static Left widen(__m256i pairs) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)))};
  }
  static Left left(const std::byte* p) {
    int32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return widen(_mm256_set1_epi32(bits));
  }
  static Right right(const std::byte* p) {
    return {widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
            widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)))};
  }
  static void multiply_add(Sum& sum, const Left& a, const Right& b) {
    sum.low = _mm256_fmadd_ps(a.even, b.low.even, sum.low);
    sum.high = _mm256_fmadd_ps(a.even, b.high.even, sum.high);
    sum.low = _mm256_fmadd_ps(a.odd, b.low.odd, sum.low);
    sum.high = _mm256_fmadd_ps(a.odd, b.high.odd, sum.high);
  }
};

}  // namespace

constinit const MatrixKernel kMatrixAvx2F32 =
    vector_kernel<FloatOps>("avx2 f32 4x16", "fused multiply-adds of f32");
constinit const MatrixKernel kMatrixAvx2Bf16 = vector_kernel<WidenedOps>(
    "avx2 bf16 4x16", "bf16 widened to f32 in registers: no bf16 instructions in this family");

}  // namespace athanor::ops::cpu

#endif
