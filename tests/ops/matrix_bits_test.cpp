// What products promise beyond their value: bits, bad numbers that stay in place, refusals, kernels
// found out.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ops/cpu/matrix_check.h"
#include "ops/matrix_testing.h"
#include "ops/matrix_tile_model.h"

namespace athanor::ops::testing {
namespace {

TEST(MatrixBits, DependNeitherOnThreadsNorOnOtherRows) {
  constexpr int64_t kRows = 75;
  constexpr int64_t kColumns = 290;
  constexpr int64_t kDepth = 531;
  for (const Backend& backend : backends(&cpu::kModelledAmx)) {
    Numbers numbers(7);
    Matrix x(backend.compute, kRows, kDepth);
    Matrix w(backend.compute, kColumns, kDepth);
    Matrix dy(backend.compute, kRows, kColumns);
    for (Matrix* m : {&x, &w, &dy}) numbers.fill(*m);
    const Packed b = pack_on(backend, w, false);
    std::vector<std::byte> first_y;
    std::vector<std::byte> first_dw;
    for (const int threads : {1, 2, 3}) {
      Matrix y(real_of(backend.compute), kRows, kColumns);
      Matrix dw(real_of(backend.compute), kColumns, kDepth);
      run_planned(backend, threads, [&](Context& ctx) {
        linear_on(backend, ctx, x.tensor(), b.matrix, y.tensor());
        accumulate_outer_on(backend, ctx, dy.tensor(), x.tensor(), dw.tensor());
      });
      if (threads == 1) {
        first_y = y.bytes();
        first_dw = dw.bytes();
      }
      EXPECT_EQ(y.bytes(), first_y) << backend.name << " on " << threads << " threads";
      EXPECT_EQ(dw.bytes(), first_dw) << backend.name << " on " << threads << " threads";
    }
    for (const auto& [begin, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {74, 1}, {3, 2}, {10, 7}, {1, 33}}) {
      Matrix y(real_of(backend.compute), count, kColumns);
      run_planned(backend, 2, [&](Context& ctx) {
        linear_on(backend, ctx, x.tensor().slice_rows(begin, count), b.matrix, y.tensor());
      });
      const auto row_bytes = static_cast<std::ptrdiff_t>(y.bytes().size()) / count;
      EXPECT_TRUE(
          std::equal(y.bytes().begin(), y.bytes().end(), first_y.begin() + begin * row_bytes))
          << backend.name << ": rows from " << begin << " depend on the rows beside them";
    }
  }
}

TEST(MatrixBits, AGroupOwesNothingToItsNeighbours) {
  constexpr int64_t kRows = 4200;  // more tokens than one sum takes
  constexpr int64_t kSize = 17;
  for (const Backend& backend : backends(&cpu::kModelledAmx)) {
    Numbers numbers(9);
    Matrix x(backend.compute, kRows + 5, kSize);
    Matrix dy(backend.compute, kRows + 5, kSize);
    numbers.fill(x);
    numbers.fill(dy);
    Matrix alone(real_of(backend.compute), kSize, kSize);
    Matrix both(real_of(backend.compute), 2 * kSize, kSize);
    const std::array<int64_t, 3> offsets{0, 5, kRows + 5};
    run_planned(backend, 2, [&](Context& ctx) {
      accumulate_outer_on(backend, ctx, dy.tensor().slice_rows(5, kRows),
                          x.tensor().slice_rows(5, kRows), alone.tensor());
      grouped_outer_on(backend, ctx, dy.tensor(), x.tensor(), offsets,
                       both.tensor().reshaped({2, kSize, kSize}));
    });
    EXPECT_TRUE(
        std::equal(alone.bytes().begin(), alone.bytes().end(),
                   both.bytes().begin() + static_cast<std::ptrdiff_t>(alone.bytes().size())))
        << backend.name;
  }
}

/// Against the op on one block, by bit: a row of that one holds for this one, too.
TWIN_ROW(blocks_of_columns, On::kTilesToo, "block_accumulate_outer") {
  constexpr int64_t kRows = 2100;  // more tokens than one sum takes
  constexpr int64_t kBlocks = 3, kN = 18, kK = 35;
  for (const Backend& backend : backends(&cpu::kModelledAmx)) {
    Numbers numbers(11);
    Matrix x(backend.compute, kRows, kBlocks * kK);
    Matrix dy(backend.compute, kRows, kBlocks * kN);
    Matrix alone(real_of(backend.compute), kBlocks * kN, kK);
    for (Matrix* m : {&x, &dy, &alone}) numbers.fill(*m);
    for (const int threads : {1, 2, 3}) {
      Matrix together = alone, expected = alone;
      run_planned(backend, threads, [&](Context& ctx) {
        for (int64_t b = 0; b < kBlocks; ++b) {
          accumulate_outer_on(backend, ctx, dy.tensor().columns(b * kN, kN),
                              x.tensor().columns(b * kK, kK),
                              expected.tensor().slice_rows(b * kN, kN));
        }
        block_outer_on(backend, ctx, dy.tensor(), x.tensor(),
                       together.tensor().reshaped({kBlocks, kN, kK}));
      });
      EXPECT_EQ(together.bytes(), expected.bytes()) << backend.name << " on " << threads;
    }
  }
}

TEST(MatrixBits, NoTokensIsNoError) {
  for (const Backend& backend : backends(&cpu::kModelledAmx)) {
    Numbers numbers(1);
    Matrix w(backend.compute, 18, 20);
    Matrix dw(real_of(backend.compute), 18, 20);
    numbers.fill(w);
    numbers.fill(dw);
    const Matrix before = dw;
    const Packed b = pack_on(backend, w, false);
    alignas(64) std::byte somewhere[64];
    const Tensor x(somewhere, backend.compute, {0, 20});
    const Tensor y(somewhere, backend.compute, {0, 18});
    run_planned(backend, 2, [&](Context& ctx) {
      linear_on(backend, ctx, x, b.matrix, y);
      accumulate_outer_on(backend, ctx, y, x, dw.tensor());
    });
    EXPECT_EQ(dw.bytes(), before.bytes()) << backend.name;
  }
}

TEST(MatrixBits, InfinityAndNanStayInTheirRowAndColumn) {
  constexpr int64_t kSize = 45;
  for (const Backend& backend : backends(&cpu::kModelledAmx)) {
    Numbers numbers(5);
    Matrix x(backend.compute, kSize, kSize);
    Matrix w(backend.compute, kSize, kSize);
    numbers.fill(x);
    numbers.fill(w);
    x.set(17, 44, std::numeric_limits<double>::infinity());
    w.set(20, 3, std::nan(""));
    Matrix y(real_of(backend.compute), kSize, kSize);
    const Packed b = pack_on(backend, w, false);
    run_planned(backend, 2,
                [&](Context& ctx) { linear_on(backend, ctx, x.tensor(), b.matrix, y.tensor()); });
    for (int64_t i = 0; i < kSize; ++i) {
      for (int64_t j = 0; j < kSize; ++j) {
        EXPECT_EQ(std::isfinite(y.get(i, j)), i != 17 && j != 20)
            << backend.name << " at " << i << ", " << j;
        EXPECT_EQ(std::isnan(y.get(i, j)), j == 20) << backend.name << " at " << i << ", " << j;
      }
    }
  }
}

/// What ops say of arguments that do not fit.
template <class Call>
bool refuses(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ExitCode::kBug;
  }
  return false;
}

TEST(MatrixDoor, ShapesThatDoNotFitAreBugs) {
  Arena scratch("scratch");
  scratch.reserve(1 << 20);
  Context ctx(Threads(1), scratch);
  Numbers numbers(3);
  Matrix x(DType::kF32, 4, 6);
  Matrix w(DType::kF32, 5, 6);
  Matrix y(DType::kF32, 4, 5);
  for (Matrix* m : {&x, &w, &y}) numbers.fill(*m);
  const Packed packed = pack_on({"", Isa::kReference, nullptr, DType::kF32}, w, false);
  PackedMatrix b = packed.matrix;
  EXPECT_FALSE(refuses([&] { linear(ctx, x.tensor(), b, y.tensor()); }));
  EXPECT_TRUE(refuses([&] { linear(ctx, w.tensor(), b, y.tensor()); }));
  EXPECT_TRUE(refuses([&] { linear(ctx, x.tensor().columns(0, 5), b, y.tensor()); }));
  EXPECT_TRUE(refuses([&] { linear(ctx, x.tensor(), PackedMatrix{}, y.tensor()); }));
  EXPECT_TRUE(refuses([&] { pack(ctx, x.tensor(), b); }));
  EXPECT_TRUE(refuses([&] { pack_transposed(ctx, w.tensor(), b); }));
  EXPECT_TRUE(
      refuses([&] { accumulate_outer(ctx, DType::kF32, y.tensor(), w.tensor(), w.tensor()); }));
  EXPECT_TRUE(refuses([&] { matmul(ctx, DType::kF32, x.tensor(), w.tensor(), y.tensor()); }));
  EXPECT_TRUE(refuses([&] { matmul(ctx, DType::kI32, x.tensor(), x.tensor(), x.tensor()); }));
  EXPECT_TRUE(refuses([&] { newton_schulz(ctx, DType::kF32, x.tensor(), w.tensor()); }));
  const auto grouped = [&](std::vector<int64_t> offsets) {
    return refuses([&] { grouped_linear(ctx, x.tensor(), offsets, std::span(&b, 1), y.tensor()); });
  };
  EXPECT_FALSE(grouped({0, 4}));
  EXPECT_TRUE(grouped({0, -1}));
  EXPECT_TRUE(grouped({0, 5}));
  EXPECT_TRUE(grouped({1, 4}));
  EXPECT_TRUE(grouped({0, 1, 4}));
}

void forget_the_last_row(const cpu::MatrixBlock& block) {
  cpu::MatrixBlock shorter = block;
  --shorter.rows;
  cpu::kModelledAmx.multiply(shorter);
}

TEST(MatrixCheck, AKernelThatComputesWrongIsFoundOut) {
  EXPECT_TRUE(cpu::computes_exactly(cpu::kModelledAmx));
  cpu::MatrixKernel broken = cpu::kModelledAmx;
  broken.multiply = forget_the_last_row;
  EXPECT_FALSE(cpu::computes_exactly(broken));
  for (const Backend& backend : backends(nullptr)) {
    if (backend.compute != DType::kBF16 || backend.isa == Isa::kReference) continue;
    EXPECT_TRUE(cpu::computes_exactly(cpu::matrix_kernel(backend.isa, DType::kBF16)))
        << backend.name;
  }
}

}  // namespace
}  // namespace athanor::ops::testing
