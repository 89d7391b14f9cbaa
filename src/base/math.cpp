#include "base/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Argument reduction by Cody and Waite with split constants, then short Taylor or minimax series
// evaluated by Horner's rule. Only +, -, *, / and exact bit operations are used: IEEE 754 fixes
// their results everywhere.
namespace athanor::math {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kInverseLn2 = 1.44269504088896338700e+00;
// Pi/2 in four parts of 33 bits: k * part is exact for |k| < 2^20.
constexpr double kPio2A = 1.57079632673412561417e+00;
constexpr double kPio2B = 6.07710050630396597660e-11;
constexpr double kPio2C = 2.02226624871116645580e-21;
constexpr double kPio2D = 8.47842766036889956997e-32;
constexpr double kTwoOverPi = 6.36619772367581382433e-01;

double scale_by_power_of_two(double x, int n) {
  // Two steps keep the factor normal for results that are subnormal.
  const auto power = [](int e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  const int half = n / 2;
  return x * power(half) * power(n - half);
}

double sine_series(double r) {
  const double z = r * r;
  double p = -7.6471637318198164759e-13;
  p = p * z + 1.6059043836821614599e-10;
  p = p * z - 2.5052108385441718775e-08;
  p = p * z + 2.7557319223985890653e-06;
  p = p * z - 1.9841269841269841270e-04;
  p = p * z + 8.3333333333333333333e-03;
  p = p * z - 1.6666666666666666667e-01;
  return r + r * z * p;
}

double cosine_series(double r) {
  const double z = r * r;
  double p = 4.7794773323873852974e-14;
  p = p * z - 1.1470745597729724714e-11;
  p = p * z + 2.0876756987868098979e-09;
  p = p * z - 2.7557319223985890653e-07;
  p = p * z + 2.4801587301587301587e-05;
  p = p * z - 1.3888888888888888889e-03;
  p = p * z + 4.1666666666666666667e-02;
  return 1.0 - (0.5 * z - z * z * p);
}

double quadrant(double x, int& q) {
  const double k = std::nearbyint(x * kTwoOverPi);
  q = static_cast<int>(static_cast<int64_t>(k) & 3);
  return (((x - k * kPio2A) - k * kPio2B) - k * kPio2C) - k * kPio2D;
}

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 709.782712893384) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0.0;
  const double k = std::nearbyint(x * kInverseLn2);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double p = 1.0 / 6227020800.0;
  double divisor = 479001600.0;
  for (int i = 12; i >= 1; --i) {
    p = p * r + 1.0 / divisor;
    divisor /= i;
  }
  p = p * r + 1.0;
  return scale_by_power_of_two(p, static_cast<int>(k));
}

double log(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == std::numeric_limits<double>::infinity()) return x;
  int bias = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 0x1p54;
    bias = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  int e = static_cast<int>(bits >> 52) - 1023 + bias;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++e;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  for (int i = 21; i >= 3; i -= 2) p = p * z + 1.0 / i;
  const double log_m = 2.0 * s + 2.0 * s * z * p;
  return e * kLn2High + (log_m + e * kLn2Low);
}

double sin(double x) {
  int q = 0;
  const double r = quadrant(x, q);
  const double v = (q & 1) ? cosine_series(r) : sine_series(r);
  return (q & 2) ? -v : v;
}

double cos(double x) {
  int q = 0;
  const double r = quadrant(x, q);
  const double v = (q & 1) ? sine_series(r) : cosine_series(r);
  return (q == 1 || q == 2) ? -v : v;
}

double pow(double x, double y) { return exp(y * log(x)); }

}  // namespace athanor::math
