// Normal numbers, side by side in a vector: the operations of base/random.cpp and base/math.cpp in
// their order, each rounded as there, so that no bit differs. What is a branch there is a choice here.
#include "ops/cpu/random.h"

#include <algorithm>

#include "base/random.h"
#include "ops/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/random.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DoubleTag = hn::ScalableTag<double>;
using Double = hn::Vec<DoubleTag>;
constexpr DoubleTag kDouble;
constexpr hn::RebindToUnsigned<DoubleTag> kBits;
constexpr hn::RebindToSigned<DoubleTag> kWhole;
#if HWY_TARGET != HWY_SCALAR
constexpr hn::Repartition<uint32_t, DoubleTag> kWords;
#endif
using Bits = hn::Vec<decltype(kBits)>;

HWY_INLINE Double number(double value) { return hn::Set(kDouble, value); }

/// Philox4x32-10 for each lane's counter (base/random.h); the block's first two words as one.
HWY_INLINE Bits philox_words(Bits counter, uint64_t key, uint64_t stream) {
  const auto low = hn::Set(kBits, 0xffffffffu);
  const auto multiply = [](Bits a, uint64_t b) HWY_ATTR {  // 32 × 32 bits in 64
#if HWY_TARGET == HWY_SCALAR
    return hn::Mul(a, hn::Set(kBits, b));
#else
    return hn::MulEven(hn::BitCast(kWords, a), hn::BitCast(kWords, hn::Set(kBits, b)));
#endif
  };
  auto c0 = hn::And(counter, low), c1 = hn::ShiftRight<32>(counter);
  auto c2 = hn::Set(kBits, stream & 0xffffffffu), c3 = hn::Set(kBits, stream >> 32);
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto p0 = multiply(c0, 0xD2511F53u), p1 = multiply(c2, 0xCD9E8D57u);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(kBits, uint64_t{k0}));
    c1 = hn::And(p1, low);
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(kBits, uint64_t{k1}));
    c3 = hn::And(p0, low);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return hn::Or(hn::ShiftLeft<32>(c1), c0);
}

/// A whole number below 2⁵³, exactly: its upper and its lower 32 bits lie in the mantissas of 2⁸⁴ and
/// 2⁵².
HWY_INLINE Double exact(Bits whole) {
  const auto upper = hn::Or(hn::ShiftRight<32>(whole), hn::Set(kBits, 0x4530000000000000u));
  const auto lower =
      hn::Or(hn::And(whole, hn::Set(kBits, 0xffffffffu)), hn::Set(kBits, 0x4330000000000000u));
  return hn::Add(hn::Sub(hn::BitCast(kDouble, upper), number(0x1p84 + 0x1p52)),
                 hn::BitCast(kDouble, lower));
}

HWY_INLINE Double uniform(Bits counter, uint64_t seed, uint64_t stream) {
  const auto words = philox_words(counter, seed, stream);
  return hn::Mul(exact(hn::ShiftRight<11>(words)), number(0x1p-53));
}

/// math::log for x in [2⁻⁵³, 1].
HWY_INLINE Double log(Double x) {
  const auto bits = hn::BitCast(kBits, x);
  auto m = hn::BitCast(kDouble, hn::Or(hn::And(bits, hn::Set(kBits, 0x000fffffffffffffu)),
                                       hn::Set(kBits, 0x3ff0000000000000u)));
  // The exponent lies within [−53, 0].
  auto e = hn::Sub(exact(hn::ShiftRight<52>(bits)), number(1023.0));
  const auto large = hn::Gt(m, number(1.4142135623730951));
  m = hn::IfThenElse(large, hn::Mul(m, number(0.5)), m);
  e = hn::IfThenElse(large, hn::Add(e, number(1.0)), e);
  const auto s = hn::Div(hn::Sub(m, number(1.0)), hn::Add(m, number(1.0)));
  const auto z = hn::Mul(s, s);
  auto p = number(1.0 / 23.0);
  for (int i = 21; i >= 3; i -= 2) p = hn::Add(hn::Mul(p, z), number(1.0 / i));
  const auto twice = hn::Mul(number(2.0), s);
  const auto log_m = hn::Add(twice, hn::Mul(hn::Mul(twice, z), p));
  const auto fraction = hn::Add(log_m, hn::Mul(e, number(1.90821492927058770002e-10)));
  return hn::Add(hn::Mul(e, number(6.93147180369123816490e-01)), fraction);
}

/// p·z + c for each next coefficient c.
template <size_t N>
HWY_INLINE Double series(Double z, const double (&coefficients)[N]) {
  auto p = number(coefficients[0]);
  for (size_t i = 1; i < N; ++i) p = hn::Add(hn::Mul(p, z), number(coefficients[i]));
  return p;
}

/// math::cos for x in [0, 2π].
HWY_INLINE Double cos(Double x) {
  constexpr double kSine[] = {-7.6471637318198164759e-13, 1.6059043836821614599e-10,
                              -2.5052108385441718775e-08, 2.7557319223985890653e-06,
                              -1.9841269841269841270e-04, 8.3333333333333333333e-03,
                              -1.6666666666666666667e-01};
  constexpr double kCosine[] = {4.7794773323873852974e-14, -1.1470745597729724714e-11,
                                2.0876756987868098979e-09, -2.7557319223985890653e-07,
                                2.4801587301587301587e-05, -1.3888888888888888889e-03,
                                4.1666666666666666667e-02};
  // Of numbers from 0 to 4 the nearest whole one, ties to even, is what is left of adding 2⁵².
  const auto shifted = hn::Add(hn::Mul(x, number(6.36619772367581382433e-01)), number(0x1p52));
  const auto k = hn::Sub(shifted, number(0x1p52));
  const auto q = hn::And(hn::BitCast(kBits, shifted), hn::Set(kBits, 3u));
  auto r = hn::Sub(x, hn::Mul(k, number(1.57079632673412561417e+00)));
  r = hn::Sub(r, hn::Mul(k, number(6.07710050630396597660e-11)));
  r = hn::Sub(r, hn::Mul(k, number(2.02226624871116645580e-21)));
  r = hn::Sub(r, hn::Mul(k, number(8.47842766036889956997e-32)));
  const auto z = hn::Mul(r, r);
  const auto sine = hn::Add(r, hn::Mul(hn::Mul(r, z), series(z, kSine)));
  const auto cosine = hn::Sub(
      number(1.0), hn::Sub(hn::Mul(number(0.5), z), hn::Mul(hn::Mul(z, z), series(z, kCosine))));
  const auto one = hn::Set(kBits, 1u);
  const auto odd = hn::RebindMask(kDouble, hn::Eq(hn::And(q, one), one));
  const auto value = hn::IfThenElse(odd, sine, cosine);
  const auto turned = hn::Xor(q, hn::ShiftRight<1>(q));  // its lowest bit: q is 1 or 2
  const auto negative = hn::RebindMask(kDouble, hn::Eq(hn::And(turned, one), one));
  return hn::IfThenElse(negative, hn::Neg(value), value);
}

/// values[i] = deviation · normal() number i of the stream.
void normal_block(float* values, int64_t count, double deviation, uint64_t seed, uint64_t stream) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kDouble));
  const hn::Rebind<float, DoubleTag> narrow;
  HWY_ALIGN float rest[hn::MaxLanes(kDouble)];
  const auto steps = hn::BitCast(kBits, hn::ShiftLeft<1>(hn::Iota(kWhole, 0)));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto counter = hn::Add(hn::Set(kBits, static_cast<uint64_t>(2 * i)), steps);
    const auto first = uniform(counter, seed, stream);
    const auto second = uniform(hn::Add(counter, hn::Set(kBits, 1u)), seed, stream);
    const auto radius = hn::Sqrt(hn::Mul(number(-2.0), log(hn::Sub(number(1.0), first))));
    const auto normal = hn::Mul(radius, cos(hn::Mul(number(6.283185307179586), second)));
    const auto value = hn::DemoteTo(narrow, hn::Mul(number(deviation), normal));
    if (i + lanes <= count) {
      hn::StoreU(value, narrow, values + i);
    } else {
      hn::Store(value, narrow, rest);
      std::copy_n(rest, count - i, values + i);
    }
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(normal_block);

}  // namespace

void fill_normal(const Context& ctx, const Tensor& t, double deviation, uint64_t seed,
                 const char* name) {
  const auto kernel = &ATHANOR_KERNEL(normal_block, ctx.isa());
  for_row_blocks(ctx, t.numel(), kNormalBlock, [&](int64_t begin, int64_t end) {
    kernel(t.as<float>() + begin, end - begin, deviation, seed,
           stream_of(name, static_cast<uint64_t>(begin / kNormalBlock)));
  });
}

}  // namespace athanor::ops::cpu
#endif
