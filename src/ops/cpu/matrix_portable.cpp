// Products in plain C++ that every compiler vectorises for its baseline: the fallback, and the
// kernel of Arm.
#include <bit>

#include "ops/cpu/matrix_families.h"
#include "ops/cpu/matrix_portable_inl.h"

namespace athanor::ops::cpu {
namespace {

struct FloatOps : PortableSums {
  static constexpr DType kCompute = DType::kF32;
  using Left = Float4;
  using Right = Sum;

  static Left left(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return all(value);
  }
  static Right right(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static void multiply_add(Sum& sum, const Left& a, const Right& b) {
    for (int i = 0; i < 4; ++i) sum.part[i] = multiply_add_lanes(a, b.part[i], sum.part[i]);
  }
};

/// The bf16 of even and of odd k as floats, from words that hold one of each.
struct Widened {
  Float4 even;
  Float4 odd;
};

struct WidenedOps : PortableSums {
  static constexpr DType kCompute = DType::kBF16;
  using Left = Widened;
  struct Right {
    Widened part[4];
  };

  static Widened widen(Word4 pairs) {
    return {std::bit_cast<Float4>(pairs << 16), std::bit_cast<Float4>(pairs & 0xffff0000U)};
  }
  static Left left(const std::byte* p) {
    uint32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return widen(Word4{pair, pair, pair, pair});
  }
  static Right right(const std::byte* p) {
    Right line;
    for (int i = 0; i < 4; ++i) {
      Word4 pairs;
      std::memcpy(&pairs, p + 16 * i, sizeof pairs);
      line.part[i] = widen(pairs);
    }
    return line;
  }
  static void multiply_add(Sum& sum, const Left& a, const Right& b) {
    for (int i = 0; i < 4; ++i) {
      sum.part[i] = multiply_add_lanes(a.even, b.part[i].even, sum.part[i]);
      sum.part[i] = multiply_add_lanes(a.odd, b.part[i].odd, sum.part[i]);
    }
  }
};

}  // namespace

constinit const MatrixKernel kMatrixPortableF32 =
    vector_kernel<FloatOps>("portable f32 2x16", "the baseline of this architecture");
constinit const MatrixKernel kMatrixPortableBf16 = vector_kernel<WidenedOps>(
    "portable bf16 2x16", "bf16 widened to f32: the baseline of this architecture");

}  // namespace athanor::ops::cpu
