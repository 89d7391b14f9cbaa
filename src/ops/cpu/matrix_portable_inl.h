// Sixteen sums in plain C++, for kernels that must run on any CPU.
#pragma once

#include <cmath>

#include "ops/cpu/matrix_pack_inl.h"

namespace athanor::ops::cpu {
namespace {

/// Four floats, which every compiler keeps in a register of its baseline (SSE2, NEON) and computes on lane by lane.
using Float4 = float __attribute__((vector_size(16)));

/// a · b + c, fused where the machine's baseline has an instruction for it.
inline Float4 multiply_add_lanes(Float4 a, Float4 b, Float4 c) {
#ifdef FP_FAST_FMAF
  for (int i = 0; i < 4; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

struct PortableSums {
  // 2 rows by 16 columns: 8 registers of 4 on the narrowest machine.
  static constexpr int kRows = 2;
  static constexpr int kPanels = 1;
  struct Sum {
    Float4 part[4];
  };

  static Float4 all(float value) { return Float4{value, value, value, value}; }
  static Sum zero() { return {}; }
  static Sum load(const float* p) {
    Sum v;
    for (int i = 0; i < 4; ++i) std::memcpy(&v.part[i], p + 4 * i, sizeof v.part[i]);
    return v;
  }
  static void store(float* p, const Sum& v) {
    for (int i = 0; i < 4; ++i) std::memcpy(p + 4 * i, &v.part[i], sizeof v.part[i]);
  }
  static Sum add(const Sum& a, const Sum& b) {
    Sum v;
    for (int i = 0; i < 4; ++i) v.part[i] = a.part[i] + b.part[i];
    return v;
  }
  static Sum scale(const Sum& a, float factor) {
    Sum v;
    for (int i = 0; i < 4; ++i) v.part[i] = a.part[i] * factor;
    return v;
  }
  static void store_bf16(uint16_t* p, const Sum& v) {
    float values[kPanelColumns];
    store(values, v);
    for (int i = 0; i < kPanelColumns; ++i) p[i] = bf16_bits(values[i]);
  }
};

}  // namespace
}  // namespace athanor::ops::cpu
