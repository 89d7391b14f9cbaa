#include "base/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"

namespace athanor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Distance of `got` from `exact` in units of the last place of a double of that size.
double ulps(double got, long double exact) {
  const auto rounded = static_cast<double>(exact);
  const double unit = std::nextafter(std::fabs(rounded), kInfinity) - std::fabs(rounded);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             static_cast<long double>(unit));
}

TEST(Math, ExpIsWithinTwoUlp) {
  RandomStream random(1, stream_of("exp"));
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = (random.uniform() - 0.5) * (i % 2 == 0 ? 2.0 : 1416.0);
    worst = std::max(worst, ulps(math::exp(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(math::exp(0.0), 1.0);
  EXPECT_LT(ulps(math::exp(-740.0), std::exp(-740.0L)), 2.0);  // a subnormal
}

TEST(Math, ExpAtTheEndsOfItsRange) {
  EXPECT_EQ(math::exp(-746.0), 0.0);
  EXPECT_EQ(math::exp(-kInfinity), 0.0);
  EXPECT_EQ(math::exp(710.0), kInfinity);
  EXPECT_EQ(math::exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isfinite(math::exp(709.78)));
  EXPECT_TRUE(std::isnan(math::exp(std::nan(""))));
}

TEST(Math, LogIsWithinTwoUlp) {
  RandomStream random(1, stream_of("log"));
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    double x = 0.5 + random.uniform() * 1.5;  // around 1, where the result is small
    if (i % 2 == 0) x = std::ldexp(x, static_cast<int>(random.below(2040)) - 1020);
    worst = std::max(worst, ulps(math::log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(math::log(1.0), 0.0);
  EXPECT_LT(ulps(math::log(4e-320), std::log(static_cast<long double>(4e-320))), 2.0);
}

TEST(Math, LogAtTheEndsOfItsRange) {
  EXPECT_EQ(math::log(0.0), -kInfinity);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
  EXPECT_TRUE(std::isnan(math::log(std::nan(""))));
}

TEST(Math, SineAndCosineKeepTheirAbsoluteError) {
  RandomStream random(1, stream_of("sine"));
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double range = i % 3 == 0 ? 2e6 : i % 3 == 1 ? 2e3 : 8.0;
    const double x = (random.uniform() - 0.5) * range;
    const auto exact = static_cast<long double>(x);
    worst = std::max(worst, std::fabs(static_cast<double>(math::sin(x) - std::sin(exact))));
    worst = std::max(worst, std::fabs(static_cast<double>(math::cos(x) - std::cos(exact))));
  }
  EXPECT_LT(worst, 1e-15);
  // Near a multiple of a half turn, where a short reduction shows: integers are the positions of
  // RoPE.
  for (const double x : {3.0, 22.0, 355.0, 710.0, 103993.0, 104348.0, 208341.0, 1e6}) {
    EXPECT_NEAR(math::sin(x), static_cast<double>(std::sin(static_cast<long double>(x))), 1e-15)
        << x;
    EXPECT_NEAR(math::cos(-x), static_cast<double>(std::cos(static_cast<long double>(x))), 1e-15)
        << x;
  }
  EXPECT_EQ(math::sin(0.0), 0.0);
  EXPECT_EQ(math::cos(0.0), 1.0);
}

TEST(Math, PowersAsRoPENeedsThem) {
  for (int j = 0; j < 64; ++j) {
    for (const double theta : {1e4, 1e6, 5e6, 1e7}) {
      const double exponent = -2.0 * j / 128.0;
      const auto exact =
          std::pow(static_cast<long double>(theta), static_cast<long double>(exponent));
      EXPECT_LT(ulps(math::pow(theta, exponent), exact), 16.0) << theta << "^" << exponent;
    }
  }
  EXPECT_EQ(math::pow(2.0, 0.0), 1.0);
}

}  // namespace
}  // namespace athanor
