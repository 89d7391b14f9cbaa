// Products of bf16 with AVX-512's dot product of pairs.
#if defined(__x86_64__)

#include "ops/cpu/matrix_avx512_inl.h"
#include "ops/cpu/matrix_families.h"

namespace athanor::ops::cpu {
namespace {

struct PairOps : Avx512Sums {
  // 24 sums, 3 lines and a broadcast are 28 registers; the 11 loads of a line hide behind its 24
  // products.
  static constexpr int kRows = 8;
  static constexpr int kPanels = 3;
  static constexpr DType kCompute = DType::kBF16;
  using Left = __m512i;
  using Right = __m512i;

  static Left left(const std::byte* p) { return broadcast(p); }
  static Right right(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void multiply_add(Sum& sum, Left a, Right b) {
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

constinit const MatrixKernel kMatrixAvx512Bf16 =
    vector_kernel<PairOps>("avx512bf16 8x48", "dot products of bf16 pairs");

}  // namespace athanor::ops::cpu

#endif
