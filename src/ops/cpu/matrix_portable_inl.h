// Sixteen sums in plain C++, for kernels that must run on any CPU.
#pragma once

#include <cmath>

#include "ops/cpu/matrix_pack_inl.h"

namespace athanor::ops::cpu {
namespace {

struct PortableSums {
  // 2 rows by 16 columns: 8 registers of 4 on the narrowest machine.
  static constexpr int kRows = 2;
  static constexpr int kPanels = 1;
  struct Sum {
    float lane[kPanelColumns];
  };

  static Sum zero() { return {}; }
  static Sum load(const float* p) {
    Sum v;
    std::memcpy(v.lane, p, sizeof v.lane);
    return v;
  }
  static void store(float* p, const Sum& v) { std::memcpy(p, v.lane, sizeof v.lane); }
  static Sum add(const Sum& a, const Sum& b) {
    Sum v;
    for (int i = 0; i < kPanelColumns; ++i) v.lane[i] = a.lane[i] + b.lane[i];
    return v;
  }
  static Sum scale(const Sum& a, float factor) {
    Sum v;
    for (int i = 0; i < kPanelColumns; ++i) v.lane[i] = a.lane[i] * factor;
    return v;
  }
  static void store_bf16(uint16_t* p, const Sum& v) {
    for (int i = 0; i < kPanelColumns; ++i) p[i] = bf16_bits(v.lane[i]);
  }
  /// a · b + c, fused where the machine's baseline has an instruction for it.
  static float multiply_add_lane(float a, float b, float c) {
#ifdef FP_FAST_FMAF
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
  }
};

}  // namespace
}  // namespace athanor::ops::cpu
