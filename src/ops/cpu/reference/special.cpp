#include "ops/cpu/reference/special.h"

#include <cmath>

#include "base/math.h"

namespace athanor::ops::reference {
namespace {

constexpr double kInverseSqrt2 = 0.70710678118654752440;
constexpr double kInverseSqrtPi = 0.56418958354775628695;
constexpr double kInverseSqrt2Pi = 0.39894228040143267794;

/// erf(x) = 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)), |x| < 1: all terms have one sign,
/// nothing cancels.
double erf_series(double x) {
  double term = x;
  double sum = x;
  for (int n = 1; n < 40; ++n) {
    term *= 2.0 * x * x / (2 * n + 1);
    sum += term;
  }
  return 2.0 * kInverseSqrtPi * math::exp(-x * x) * sum;
}

/// erfc(x) = e^(−x²)/√π · 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …)))), x >= 1 (Laplace's
/// continued fraction).
double erfc_fraction(double x) {
  double tail = x;
  for (int n = 200; n >= 1; --n) tail = x + 0.5 * n / tail;
  // x² = high + low exactly: the rounding of x² would come back multiplied by x² in the
  // exponential.
  const double high = x * x;
  const double low = std::fma(x, x, -high);
  return math::exp(-high) * (1.0 - low) * kInverseSqrtPi / tail;
}

double sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + math::exp(-x));
  const double e = math::exp(x);
  return e / (1.0 + e);
}

}  // namespace

double normal_cdf(double x) {
  const double z = x * kInverseSqrt2;
  if (std::abs(z) > 40.0) return z > 0 ? 1.0 : 0.0;
  if (std::abs(z) < 1.0) return 0.5 + 0.5 * erf_series(z);
  if (z < 0) return 0.5 * erfc_fraction(-z);
  if (z > 0) return 1.0 - 0.5 * erfc_fraction(z);
  return x;  // NaN
}

double normal_pdf(double x) { return kInverseSqrt2Pi * math::exp(-0.5 * x * x); }

double silu(double x) { return x * sigmoid(x); }

double silu_derivative(double x) {
  const double s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}

}  // namespace athanor::ops::reference
