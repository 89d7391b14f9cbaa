// Products of f32, and of bf16 widened in registers, with AVX-512.
#if defined(__x86_64__)

#include "ops/cpu/matrix_avx512_inl.h"
#include "ops/cpu/matrix_families.h"

namespace athanor::ops::cpu {
namespace {

struct FloatOps : Avx512Sums {
  static constexpr int kRows = 8;
  static constexpr int kPanels = 3;
  static constexpr DType kCompute = DType::kF32;
  using Left = __m512;
  using Right = __m512;

  static Left left(const std::byte* p) { return _mm512_castsi512_ps(broadcast(p)); }
  static Right right(const std::byte* p) { return _mm512_loadu_ps(p); }
  static void multiply_add(Sum& sum, Left a, Right b) { sum = _mm512_fmadd_ps(a, b, sum); }
};

/// Both bf16 of each 32-bit lane as f32: the one of even k, then the one of odd k.
struct Widened {
  __m512 even;
  __m512 odd;
};

struct WidenedOps : Avx512Sums {
  // Widening costs two instructions a row and a line: three panels share a row's, 24 sums and 8
  // factors fill the registers.
  static constexpr int kRows = 8;
  static constexpr int kPanels = 3;
  static constexpr DType kCompute = DType::kBF16;
  using Left = Widened;
  using Right = Widened;

  static Widened widen(__m512i pairs) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)))};
  }
  static Left left(const std::byte* p) { return widen(broadcast(p)); }
  static Right right(const std::byte* p) { return widen(_mm512_loadu_si512(p)); }
  static void multiply_add(Sum& sum, const Left& a, const Right& b) {
    sum = _mm512_fmadd_ps(a.even, b.even, sum);
    sum = _mm512_fmadd_ps(a.odd, b.odd, sum);
  }
};

}  // namespace

constinit const MatrixKernel kMatrixAvx512F32 =
    vector_kernel<FloatOps>("avx512 f32 8x48", "fused multiply-adds of f32");
constinit const MatrixKernel kMatrixAvx512WidenedBf16 = vector_kernel<WidenedOps>(
    "avx512 bf16 8x48", "bf16 widened to f32 in registers: no bf16 instructions in this family");

}  // namespace athanor::ops::cpu

#endif
