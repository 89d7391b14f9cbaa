// Newton–Schulz against the same iteration in double, written out plainly here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/matrix_testing.h"

namespace athanor::ops::testing {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows times(const Rows& a, const Rows& b) {
  Rows c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Rows turned(const Rows& a) {
  Rows t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

/// zaya1.md §6.3, word for word.
Rows orthogonal_factor(const Matrix& g, int steps) {
  Rows x(static_cast<size_t>(g.rows()), std::vector<double>(static_cast<size_t>(g.cols())));
  double squares = 0;
  for (int64_t i = 0; i < g.rows(); ++i) {
    for (int64_t j = 0; j < g.cols(); ++j) squares += g.get(i, j) * g.get(i, j);
  }
  const double norm = std::max(std::sqrt(squares), 1e-7);
  for (int64_t i = 0; i < g.rows(); ++i) {
    for (int64_t j = 0; j < g.cols(); ++j) {
      x[static_cast<size_t>(i)][static_cast<size_t>(j)] = g.get(i, j) / norm;
    }
  }
  const bool tall = g.rows() > g.cols();
  if (tall) x = turned(x);
  for (int step = 0; step < steps; ++step) {
    const Rows a = times(x, turned(x));
    Rows b = times(a, a);
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < a.size(); ++j) b[i][j] = -4.7750 * a[i][j] + 2.0315 * b[i][j];
    }
    Rows next = times(b, x);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x[0].size(); ++j) next[i][j] += 3.4445 * x[i][j];
    }
    x = next;
  }
  return tall ? turned(x) : x;
}

double tolerance(DType compute) {
  // The bounds of golden/README.md: fp32 2e-5, bf16 4e-2; f64 has only its rounding.
  return compute == DType::kF64 ? 1e-11 : compute == DType::kF32 ? 2e-5 : 4e-2;
}

TWIN_ROW(newton_schulz, On::kThisCpu, "newton_schulz") {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},   {1, 17},  {17, 1},  {31, 31},
                                                {40, 97}, {96, 64}, {67, 33}, {65, 160}};
  for (const auto& [rows, cols] : shapes) {
    Numbers numbers(static_cast<uint64_t>(rows * 1000 + cols));
    Matrix source(DType::kF64, rows, cols);
    numbers.fill(source);
    for (const Backend& backend : backends(nullptr)) {
      Matrix g(real_of(backend.compute), rows, cols, 2);
      Matrix out(g.dtype(), rows, cols, 1);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) g.set(i, j, source.get(i, j));
      }
      const Rows expected = orthogonal_factor(g, 5);
      run_planned(backend, 2, [&](Context& ctx) {
        newton_schulz(ctx, backend.compute, g.tensor(), out.tensor());
      });
      EXPECT_TRUE(out.margin_untouched());
      double worst = 0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          const double o = out.get(i, j);
          ASSERT_TRUE(std::isfinite(o)) << backend.name;
          worst = std::max(worst,
                           std::abs(o - expected[static_cast<size_t>(i)][static_cast<size_t>(j)]));
        }
      }
      EXPECT_LE(worst, tolerance(backend.compute))
          << backend.name << " [" << rows << ", " << cols << "]";
      // In place, the same bits.
      run_planned(backend, 1, [&](Context& ctx) {
        newton_schulz(ctx, backend.compute, g.tensor(), g.tensor());
      });
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) ASSERT_EQ(g.get(i, j), out.get(i, j)) << backend.name;
      }
    }
  }
}

TEST(NewtonSchulz, NoGradientGivesZero) {
  for (const Backend& backend : backends(nullptr)) {
    const Matrix g(real_of(backend.compute), 6, 9);
    Matrix out(g.dtype(), 6, 9);
    Numbers(1).fill(out);
    run_planned(backend, 1, [&](Context& ctx) {
      newton_schulz(ctx, backend.compute, g.tensor(), out.tensor());
    });
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(out.get(i, j), 0.0) << backend.name;
    }
  }
}

}  // namespace
}  // namespace athanor::ops::testing
