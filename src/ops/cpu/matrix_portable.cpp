// Products in plain C++ that every compiler vectorises for its baseline: the fallback, and the
// kernel of Arm.
#include "ops/cpu/matrix_families.h"
#include "ops/cpu/matrix_portable_inl.h"

namespace athanor::ops::cpu {
namespace {

struct FloatOps : PortableSums {
  static constexpr DType kCompute = DType::kF32;
  using Left = float;
  using Right = Sum;

  static Left left(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
  static Right right(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static void multiply_add(Sum& sum, Left a, const Right& b) {
    for (int i = 0; i < kPanelColumns; ++i) {
      sum.lane[i] = multiply_add_lane(a, b.lane[i], sum.lane[i]);
    }
  }
};

struct WidenedOps : PortableSums {
  static constexpr DType kCompute = DType::kBF16;
  struct Left {
    float even;
    float odd;
  };
  struct Right {
    Sum even;
    Sum odd;
  };

  static Left left(const std::byte* p) {
    uint16_t bits[2];
    std::memcpy(bits, p, sizeof bits);
    return {float_of_bf16(bits[0]), float_of_bf16(bits[1])};
  }
  static Right right(const std::byte* p) {
    uint16_t bits[2 * kPanelColumns];
    std::memcpy(bits, p, sizeof bits);
    Right line;
    for (int i = 0; i < kPanelColumns; ++i) {
      line.even.lane[i] = float_of_bf16(bits[2 * i]);
      line.odd.lane[i] = float_of_bf16(bits[2 * i + 1]);
    }
    return line;
  }
  static void multiply_add(Sum& sum, const Left& a, const Right& b) {
    for (int i = 0; i < kPanelColumns; ++i) {
      sum.lane[i] = multiply_add_lane(a.even, b.even.lane[i], sum.lane[i]);
      sum.lane[i] = multiply_add_lane(a.odd, b.odd.lane[i], sum.lane[i]);
    }
  }
};

}  // namespace

constinit const MatrixKernel kMatrixPortableF32 =
    vector_kernel<FloatOps>("portable f32 2x16", "the baseline of this architecture");
constinit const MatrixKernel kMatrixPortableBf16 = vector_kernel<WidenedOps>(
    "portable bf16 2x16", "bf16 widened to f32: the baseline of this architecture");

}  // namespace athanor::ops::cpu
