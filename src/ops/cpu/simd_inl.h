// Vector helpers, once for each of Highway's targets: loads and stores of f32 and bf16, sums, exp
// and the normal distribution. Include after hwy/foreach_target.h.
#if defined(ATHANOR_OPS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_OPS_CPU_SIMD_INL_H
#undef ATHANOR_OPS_CPU_SIMD_INL_H
#else
#define ATHANOR_OPS_CPU_SIMD_INL_H
#endif

#include <cstring>

#include "hwy/highway.h"
#include "ops/cpu/simd.h"

// A lambda that is the body of a vector loop: compiled for the target and always inlined, so that
// the count of lanes of whole vectors is a constant in it.
#undef ATHANOR_INLINE_BODY
#define ATHANOR_INLINE_BODY HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
constexpr FloatTag kFloat;
constexpr hn::RebindToUnsigned<FloatTag> kUnsigned;
constexpr hn::RebindToSigned<FloatTag> kSigned;
constexpr hn::Rebind<uint16_t, FloatTag> kHalf;

HWY_INLINE size_t float_lanes() { return hn::Lanes(kFloat); }
HWY_INLINE FloatVector splat(float value) { return hn::Set(kFloat, value); }

/// body(first column, count): whole vectors, then the rest.
template <class Body>
HWY_INLINE void for_vectors(int64_t cols, Body body) {
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) body(c, float_lanes());
  if (c < cols) body(c, static_cast<size_t>(cols - c));
}

/// `count` elements at p + c; the lanes past them are 0.
HWY_INLINE FloatVector load(const float* p, int64_t c, size_t count) {
  if (count == float_lanes()) return hn::LoadU(kFloat, p + c);
  alignas(64) float buffer[hn::MaxLanes(kFloat)] = {};
  std::memcpy(buffer, p + c, count * sizeof(float));
  return hn::Load(kFloat, buffer);
}

HWY_INLINE void store(FloatVector v, float* p, int64_t c, size_t count) {
  if (count == float_lanes()) {
    hn::StoreU(v, kFloat, p + c);
    return;
  }
  alignas(64) float buffer[hn::MaxLanes(kFloat)];
  hn::Store(v, kFloat, buffer);
  std::memcpy(p + c, buffer, count * sizeof(float));
}

HWY_INLINE FloatVector from_bf16(hn::Vec<decltype(kHalf)> bits) {
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(hn::PromoteTo(kUnsigned, bits)));
}

/// Nearest, ties to even; NaN stays NaN: the same bits as the scalar bfloat16.
HWY_INLINE hn::Vec<decltype(kHalf)> to_bf16(FloatVector v) {
  const auto bits = hn::BitCast(kUnsigned, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(kUnsigned, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(kUnsigned, 0x7fffu))));
  const auto quiet = hn::Or(upper, hn::Set(kUnsigned, 0x40u));
  const auto nan = hn::RebindMask(kUnsigned, hn::IsNaN(v));
  return hn::DemoteTo(kHalf, hn::BitCast(kSigned, hn::IfThenElse(nan, quiet, rounded)));
}

HWY_INLINE FloatVector load(const uint16_t* p, int64_t c, size_t count) {
  if (count == float_lanes()) return from_bf16(hn::LoadU(kHalf, p + c));
  alignas(64) uint16_t buffer[hn::MaxLanes(kHalf)] = {};
  std::memcpy(buffer, p + c, count * sizeof(uint16_t));
  return from_bf16(hn::Load(kHalf, buffer));
}

HWY_INLINE void store(FloatVector v, uint16_t* p, int64_t c, size_t count) {
  const auto half = to_bf16(v);
  if (count == float_lanes()) {
    hn::StoreU(half, kHalf, p + c);
    return;
  }
  alignas(64) uint16_t buffer[hn::MaxLanes(kHalf)];
  hn::Store(half, kHalf, buffer);
  std::memcpy(p + c, buffer, count * sizeof(uint16_t));
}

HWY_INLINE FloatVector load(FloatRow row, int64_t c, size_t count) {
  return row.bf16 ? load(reinterpret_cast<const uint16_t*>(row.data), c, count)
                  : load(reinterpret_cast<const float*>(row.data), c, count);
}

HWY_INLINE void store(FloatVector v, FloatRow row, int64_t c, size_t count) {
  if (row.bf16) {
    store(v, reinterpret_cast<uint16_t*>(row.data), c, count);
  } else {
    store(v, reinterpret_cast<float*>(row.data), c, count);
  }
}

HWY_INLINE float sum_of(FloatVector v) { return hn::GetLane(hn::SumOfLanes(kFloat, v)); }

/// e^x within 2 ulp; 0 below −104, +inf above 88.8; NaN stays NaN. On targets without a
/// power-of-two scaling instruction results below 2^−126 are built in two steps, so that they round
/// once.
HWY_INLINE FloatVector exp(FloatVector x) {
  // Beyond these the result is 0 or infinite whatever x is; a NaN passes through the comparison.
  FloatVector y = hn::IfThenElse(hn::Gt(x, splat(90.0f)), splat(90.0f), x);
  y = hn::IfThenElse(hn::Lt(y, splat(-105.0f)), splat(-105.0f), y);
  const auto n = hn::Round(hn::Mul(y, splat(1.44269504088896341f)));
  // ln 2 in two parts; the first has 12 bits, n · it is exact.
  const auto r = hn::NegMulAdd(n, splat(-2.12194440e-4f), hn::NegMulAdd(n, splat(0.693359375f), y));
  // Minimax for the relative error on ±ln2/2 (2e-9), fitted by reweighted least squares.
  auto p = splat(1.3836789915e-3f);
  p = hn::MulAdd(p, r, splat(8.3748570514e-3f));
  p = hn::MulAdd(p, r, splat(4.1668228757e-2f));
  p = hn::MulAdd(p, r, splat(1.6666419681e-1f));
  p = hn::MulAdd(p, r, splat(4.9999992056e-1f));
  p = hn::MulAdd(p, r, splat(1.0000000364f));
  p = hn::MulAdd(p, r, splat(1.0f));
#if HWY_TARGET == HWY_AVX3
  return FloatVector{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const auto exponent = hn::ConvertTo(kSigned, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto bias = hn::Set(kSigned, 127);
  const auto low = hn::BitCast(kFloat, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto high = hn::BitCast(kFloat, hn::ShiftLeft<23>(hn::Add(hn::Sub(exponent, half), bias)));
  return hn::Mul(hn::Mul(p, low), high);
#endif
}

/// 1/(1 + e^(−x)).
HWY_INLINE FloatVector sigmoid(FloatVector x) {
  return hn::Div(splat(1.0f), hn::Add(splat(1.0f), exp(hn::Neg(x))));
}

/// a² = high + low, high rounded from a²: in an exponential the rounding of a² alone would come
/// back multiplied by a².
struct Square {
  FloatVector high, low;
};
HWY_INLINE Square square_in_two(FloatVector a) {
#if HWY_NATIVE_FMA
  const auto high = hn::Mul(a, a);
  return {high, hn::MulSub(a, a, high)};
#else
  // Dekker's way: the upper 12 bits of a have an exact square, and
  // a² − upper² = (a − upper)(a + upper).
  const auto upper =
      hn::BitCast(kFloat, hn::And(hn::BitCast(kUnsigned, a), hn::Set(kUnsigned, 0xfffff000u)));
  const auto square = hn::Mul(upper, upper);
  const auto rest = hn::Mul(hn::Sub(a, upper), hn::Add(a, upper));
  const auto high = hn::Add(square, rest);
  return {high, hn::Sub(rest, hn::Sub(high, square))};
#endif
}

/// The normal distribution function Φ(x) within 6e-7 of itself (where it is subnormal, and a unit
/// of 2^−149), and e^(−x²/2).
struct NormalValues {
  FloatVector cdf, kernel;
};
HWY_INLINE NormalValues normal(FloatVector x) {
  const auto a = hn::Abs(x);
  const auto [high, low] = square_in_two(a);
  const auto e = exp(hn::Mul(splat(-0.5f), high));
  const auto kernel = hn::NegMulAdd(hn::Mul(splat(0.5f), low), e, e);
  // Φ(−a) = e^(−a²/2) · H(1/(1 + 0.3a)): H by reweighted least squares on [0, 14.5], relative error
  // 3e-9.
  const auto t = hn::Div(splat(1.0f), hn::MulAdd(splat(0.3f), a, splat(1.0f)));
  constexpr float kTail[] = {-2.0019467515e-2f, 1.0888876721e-1f,  -2.1908431537e-1f,
                             1.7824861455e-1f,  -6.6647548287e-2f, 8.8153100645e-2f,
                             8.1752907656e-2f,  1.0930122966e-1f,  1.1973568373e-1f,
                             1.1967031955e-1f,  7.066846814e-7f};
  auto p = splat(kTail[0]);
  for (int i = 1; i < 11; ++i) p = hn::MulAdd(p, t, splat(kTail[i]));
  const auto tail = hn::Mul(kernel, p);
  const auto cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloat)), tail, hn::Sub(splat(1.0f), tail));
  // Far out a² overflows; there the density is 0. A NaN stays.
  const auto far = hn::Gt(a, splat(1e9f));
  const auto limit = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloat)), hn::Zero(kFloat), splat(1.0f));
  return {hn::IfThenElse(far, limit, cdf), hn::IfThenElse(far, hn::Zero(kFloat), kernel)};
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
