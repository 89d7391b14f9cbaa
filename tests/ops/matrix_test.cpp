// Every product on every kernel against sums in double, with the error bound of the arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ops/matrix_testing.h"
#include "ops/matrix_tile_model.h"

namespace athanor::ops::testing {
namespace {

const std::vector<Backend>& all_backends() {
  static const std::vector<Backend> all = backends(&cpu::kModelledAmx);
  return all;
}

struct Shape {
  int64_t t;
  int64_t n;
  int64_t k;
};

/// Triples of awkward sizes in which each size meets each place, and sums longer than any cache
/// block.
std::vector<Shape> shapes() {
  constexpr std::array<int64_t, 12> kSizes{1, 2, 3, 7, 16, 17, 31, 33, 64, 97, 130, 257};
  std::vector<Shape> all;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    for (size_t j = 0; j < 3; ++j) {
      all.push_back(
          {kSizes[i], kSizes[(5 * i + 3 * j + 1) % 12], kSizes[(7 * i + 5 * j + 2) % 12]});
    }
  }
  all.push_back({19, 37, 601});
  all.push_back({33, 50, 1090});
  all.push_back({150, 300, 300});
  return all;
}

/// Options change from case to case. They are drawn: whatever the number of kernels here, each kernel
/// meets all options.
int variant_of(int number) {
  return static_cast<int>((static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15ULL) >> 44);
}

std::string describe(const Backend& backend, const Shape& s, int variant) {
  return backend.name + " " + std::to_string(s.t) + "x" + std::to_string(s.n) + "x" +
         std::to_string(s.k) + " variant " + std::to_string(variant);
}

TWIN_ROW(linear, On::kTilesToo, "linear", "pack", "pack_transposed") {
  int cases = 0;
  for (const Shape& s : shapes()) {
    for (const Backend& backend : all_backends()) {
      const DType compute = backend.compute;
      const int variant = variant_of(++cases);
      const bool transposed = variant % 2 == 1;
      const bool biased = variant % 3 == 0;
      const DType y_dtype = variant % 4 == 0 ? DType::kBF16 : real_of(compute);
      const std::string where = describe(backend, s, variant);
      Numbers numbers(static_cast<uint64_t>(variant));
      Matrix x(variant % 7 < 2 ? other_act(compute) : compute, s.t, s.k, variant % 3);
      Matrix w(variant % 11 < 4 ? other_act(compute) : compute, transposed ? s.k : s.n,
               transposed ? s.n : s.k, variant % 2);
      Matrix bias(real_of(compute), 1, s.n);
      Matrix y(y_dtype, s.t, s.n, variant % 4);
      for (Matrix* m : {&x, &w, &bias, &y}) numbers.fill(*m);
      const Packed b = pack_on(backend, w, transposed);
      run_planned(backend, 1 + variant % 3, [&](Context& ctx) {
        linear_on(backend, ctx, x.tensor(), b.matrix, y.tensor(),
                  biased ? bias.tensor() : Tensor());
      });
      EXPECT_TRUE(y.margin_untouched()) << where;
      for (int64_t i = 0; i < s.t; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          Exact exact;
          for (int64_t k = 0; k < s.k; ++k) {
            exact.add(rounded(x.get(i, k), compute),
                      rounded(transposed ? w.get(k, j) : w.get(j, k), compute));
          }
          if (biased) exact.add(bias.get(0, j), 1);
          ASSERT_NO_FATAL_FAILURE(expect_close(y.get(i, j), exact, s.k, compute, y_dtype, where));
        }
      }
    }
  }
}

TWIN_ROW(accumulate_outer, On::kTilesToo, "accumulate_outer") {
  int cases = 0;
  std::vector<Shape> all = shapes();
  all.push_back({4200, 18, 19});  // more tokens than are packed at a time
  for (const Shape& s : all) {
    for (const Backend& backend : all_backends()) {
      const DType compute = backend.compute;
      const int variant = variant_of(++cases);
      const std::string where = describe(backend, s, variant);
      Numbers numbers(static_cast<uint64_t>(variant));
      Matrix dy(variant % 5 < 2 ? other_act(compute) : compute, s.t, s.n, variant % 3);
      Matrix x(variant % 7 < 3 ? other_act(compute) : compute, s.t, s.k, variant % 2);
      Matrix dw(real_of(compute), s.n, s.k, variant % 4);
      for (Matrix* m : {&dy, &x, &dw}) numbers.fill(*m);
      const Matrix before = dw;
      run_planned(backend, 1 + variant % 3, [&](Context& ctx) {
        accumulate_outer_on(backend, ctx, dy.tensor(), x.tensor(), dw.tensor());
      });
      EXPECT_TRUE(dw.margin_untouched()) << where;
      for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t j = 0; j < s.k; ++j) {
          Exact exact;
          exact.add(before.get(i, j), 1);
          for (int64_t t = 0; t < s.t; ++t) {
            exact.add(rounded(dy.get(t, i), compute), rounded(x.get(t, j), compute));
          }
          ASSERT_NO_FATAL_FAILURE(
              expect_close(dw.get(i, j), exact, s.t, compute, dw.dtype(), where));
        }
      }
    }
  }
}

TWIN_ROW(matmul, On::kTilesToo, "matmul") {
  int cases = 0;
  for (const Shape& s : shapes()) {
    for (const Backend& backend : all_backends()) {
      const DType compute = backend.compute;
      const int variant = variant_of(++cases);
      const std::string where = describe(backend, s, variant);
      const MatmulOptions options{.transpose_a = variant % 2 == 0,
                                  .transpose_b = variant % 3 == 0,
                                  .alpha = variant % 5 == 0 ? 1.0 : 0.75,
                                  .beta = variant % 4 == 0 ? -1.5 : 0.0};
      Numbers numbers(static_cast<uint64_t>(variant));
      Matrix a(variant % 7 < 3 ? other_act(compute) : compute, options.transpose_a ? s.k : s.t,
               options.transpose_a ? s.t : s.k, variant % 2);
      Matrix b(variant % 11 < 4 ? other_act(compute) : compute, options.transpose_b ? s.n : s.k,
               options.transpose_b ? s.k : s.n, variant % 3);
      Matrix c(real_of(compute), s.t, s.n, variant % 2);
      for (Matrix* m : {&a, &b, &c}) numbers.fill(*m);
      for (int64_t i = 0; options.beta == 0.0 && i < s.t; ++i) {
        for (int64_t j = 0; j < s.n; ++j) c.set(i, j, std::nan(""));  // must not be read
      }
      const Matrix before = c;
      run_planned(backend, 1 + variant % 3, [&](Context& ctx) {
        matmul_on(backend, ctx, a.tensor(), b.tensor(), c.tensor(), options);
      });
      EXPECT_TRUE(c.margin_untouched()) << where;
      for (int64_t i = 0; i < s.t; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          Exact exact;
          for (int64_t k = 0; k < s.k; ++k) {
            exact.add(
                options.alpha * rounded(options.transpose_a ? a.get(k, i) : a.get(i, k), compute),
                rounded(options.transpose_b ? b.get(j, k) : b.get(k, j), compute));
          }
          if (options.beta != 0.0) exact.add(options.beta, before.get(i, j));
          ASSERT_NO_FATAL_FAILURE(expect_close(c.get(i, j), exact, s.k, compute, c.dtype(), where));
        }
      }
    }
  }
}

/// The groups' products checked element by element; see GroupsOfAnySize.
struct Groups {
  std::vector<int64_t> offsets;
  int64_t n = 35;
  int64_t k = 26;
  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t first(int64_t g) const { return offsets[static_cast<size_t>(g)]; }
  int64_t last(int64_t g) const { return offsets[static_cast<size_t>(g) + 1]; }
};

void check_groups(const Backend& backend, const Groups& groups) {
  const DType compute = backend.compute;
  const int64_t t = groups.offsets.back() + 3;  // rows behind the last group belong to nobody
  Numbers numbers(static_cast<uint64_t>(t));
  Matrix x(t % 2 == 0 ? other_act(compute) : compute, t, groups.k);
  Matrix dy(compute, t, groups.n);
  Matrix y(real_of(compute), t, groups.n);
  Matrix dw(real_of(compute), groups.count() * groups.n, groups.k);
  for (Matrix* m : {&x, &dy, &y, &dw}) numbers.fill(*m);
  const Matrix y_before = y;
  const Matrix dw_before = dw;
  std::vector<Matrix> w;
  std::vector<Packed> packed;
  std::vector<PackedMatrix> views;
  for (int64_t g = 0; g < groups.count(); ++g) {
    w.emplace_back(compute, groups.n, groups.k);
    numbers.fill(w.back());
    packed.push_back(pack_on(backend, w.back(), false));
    views.push_back(packed.back().matrix);
  }
  run_planned(backend, 3, [&](Context& ctx) {
    // While planning the offsets are not known yet.
    const std::vector<int64_t> unknown(groups.offsets.size(), -1);
    const auto& offsets = ctx.planning() ? unknown : groups.offsets;
    grouped_linear_on(backend, ctx, x.tensor(), offsets, views, y.tensor());
    grouped_outer_on(backend, ctx, dy.tensor(), x.tensor(), offsets,
                     dw.tensor().reshaped({groups.count(), groups.n, groups.k}));
  });
  for (int64_t g = 0; g < groups.count(); ++g) {
    const std::string where = backend.name + " group " + std::to_string(g);
    const int64_t rows = groups.last(g) - groups.first(g);
    for (int64_t j = 0; j < groups.n; ++j) {
      for (int64_t i = groups.first(g); i < groups.last(g); ++i) {
        Exact exact;
        for (int64_t k = 0; k < groups.k; ++k) {
          exact.add(rounded(x.get(i, k), compute),
                    rounded(w[static_cast<size_t>(g)].get(j, k), compute));
        }
        ASSERT_NO_FATAL_FAILURE(
            expect_close(y.get(i, j), exact, groups.k, compute, y.dtype(), where));
      }
      for (int64_t k = 0; k < groups.k; ++k) {
        const int64_t row = g * groups.n + j;
        Exact exact;
        exact.add(dw_before.get(row, k), 1);
        for (int64_t i = groups.first(g); i < groups.last(g); ++i) {
          exact.add(rounded(dy.get(i, j), compute), rounded(x.get(i, k), compute));
        }
        ASSERT_NO_FATAL_FAILURE(
            expect_close(dw.get(row, k), exact, rows, compute, dw.dtype(), where));
        if (rows == 0) {
          EXPECT_EQ(dw.get(row, k), dw_before.get(row, k)) << where;
        }
      }
    }
  }
  for (int64_t i = groups.offsets.back(); i < t; ++i) {
    for (int64_t j = 0; j < groups.n; ++j) EXPECT_EQ(y.get(i, j), y_before.get(i, j));
  }
}

TWIN_ROW(groups, On::kTilesToo, "grouped_linear", "grouped_accumulate_outer") {
  for (const std::vector<int64_t>& offsets : {std::vector<int64_t>{0, 0, 5, 5, 38, 39, 39},
                                              {0, 0, 0},
                                              {0, 1300, 1301, 2450},
                                              {0, 3, 1030, 1030, 1131},
                                              {0, 1, 2, 3, 4150}}) {
    for (const Backend& backend : all_backends()) check_groups(backend, {offsets});
  }
}

}  // namespace
}  // namespace athanor::ops::testing
