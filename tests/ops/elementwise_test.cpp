#include "ops/elementwise.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  int64_t rows, cols, margin;
};
constexpr Shape kShapes[] = {{1, 1, 0},    {1, 40000, 0}, {5, 17, 0},   {3, 64, 3},
                             {129, 31, 1}, {300, 67, 0},  {33, 1024, 2}};
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16};

std::string name(const Shape& s) { return fmt::format("[{}, {}]", s.rows, s.cols); }

TWIN_ROW(elementwise, On::kThisCpu, "convert", "fill", "add", "accumulate_column_sums") {
  for (const Precision precision : kPrecisions) {
    for (const Shape& s : kShapes) {
      Twins t(precision, 1);
      const int real = t.input(Kind::kReal, s.rows, s.cols, 1.0, s.margin);
      const int act = t.input(Kind::kAct, s.rows, s.cols, 1.0, s.margin);
      const int to_act = t.written(Kind::kAct, s.rows, s.cols, {.terms = 0}, s.margin);
      const int to_real = t.written(Kind::kReal, s.rows, s.cols, {.terms = 0}, s.margin);
      const int filled = t.written(Kind::kReal, s.rows, s.cols, {.terms = 0}, s.margin);
      const int sum = t.accumulated(s.rows, s.cols, {.terms = 0}, s.margin);
      const int columns = t.accumulated(1, s.cols, {.terms = 4 + static_cast<double>(s.rows) / 4});
      t.compare(name(s), [&](Context& ctx, const Operands& o) {
        convert(ctx, o(real), o(to_act));
        convert(ctx, o(act), o(to_real));
        fill(ctx, o(filled), 0.3);
        add(ctx, o(act), o(sum));
        accumulate_column_sums(ctx, o(act), o(columns));
      });
    }
  }
}

TEST(Elementwise, ConvertsEverySpecialValueLikeTheScalar) {
  std::vector<float> values;
  for (const uint32_t top :
       {0x0000u, 0x0001u, 0x3f80u, 0x3f81u, 0x7f7fu, 0x7f80u, 0x7fc1u, 0x7f80u}) {
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        values.push_back(std::bit_cast<float>(sign | (top << 16) | low));
      }
    }
  }
  const auto n = static_cast<int64_t>(values.size());
  std::vector<bfloat16> result(values.size());
  Arena scratch("scratch");
  scratch.reserve(64);
  for (const Isa isa : instruction_sets()) {
    Context ctx(Threads(1), scratch, isa);
    convert(ctx, Tensor::of(values.data(), {n}), Tensor::of(result.data(), {n}));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(result[i].bits, bfloat16(values[i]).bits)
          << name_of(isa) << " of " << std::bit_cast<uint32_t>(values[i]);
    }
  }
}

TWIN_ROW(block_squares, On::kThisCpu, "block_squares") {
  RandomStream random(5, 5);
  for (const int64_t n : {int64_t{1}, kNormBlock - 1, kNormBlock + 17, 3 * kNormBlock + 77}) {
    std::vector<float> x(n);
    for (float& v : x) v = static_cast<float>(random.normal());
    const Tensor all = Tensor::of(x.data(), {n});
    const int64_t blocks = (n + kNormBlock - 1) / kNormBlock;
    Arena scratch("scratch");
    scratch.reserve(64);
    for (const Isa isa : instruction_sets()) {
      const auto run = [&](int threads) {
        std::vector<double> sums(blocks, -1.0);
        WatchedContext watched(threads, scratch, isa);
        block_squares(watched.get(), all, sums);
        return sums;
      };
      const std::vector<double> sums = run(1);
      for (int64_t b = 0; b < blocks; ++b) {
        double exact = 0;
        for (int64_t i = b * kNormBlock; i < std::min(n, (b + 1) * kNormBlock); ++i) {
          exact += static_cast<double>(x[i]) * x[i];
        }
        EXPECT_NEAR(sums[b], exact, 1e-12 * exact) << name_of(isa);
      }
      EXPECT_EQ(run(3), sums) << name_of(isa);
    }
  }
}

TEST(BlockSquares, ShowsWhatIsNotFiniteInItsBlock) {
  const int64_t n = 3 * kNormBlock + 77;
  std::vector<float> x(n, 0.5f);
  Arena scratch("scratch");
  scratch.reserve(64);
  for (const Isa isa : instruction_sets()) {
    Context ctx(Threads(2), scratch, isa);
    std::vector<double> sums(4, -1.0);
    block_squares(ctx, Tensor::of(x.data(), {n}), sums);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      for (const int64_t place : {kNormBlock, 2 * kNormBlock - 1, n - 1}) {
        const float kept = x[place];
        x[place] = bad;
        std::vector<double> broken(4, -1.0);
        block_squares(ctx, Tensor::of(x.data(), {n}), broken);
        x[place] = kept;
        for (int64_t b = 0; b < 4; ++b) {
          if (b == place / kNormBlock) {
            EXPECT_FALSE(std::isfinite(broken[b])) << name_of(isa);
          } else {
            EXPECT_EQ(broken[b], sums[b]) << name_of(isa);
          }
        }
      }
    }
  }
}

TEST(TreeSum, AddsPairsAtDistanceOneTwoFour) {
  // 1 + 2⁻⁵³ rounds to 1, but 2⁻⁵³ + 2⁻⁵³ survives: the order shows in the result.
  const double tiny = 0x1p-53;
  EXPECT_EQ(tree_sum(std::vector<double>{1, tiny, tiny, tiny}), 1 + 2 * tiny);
  EXPECT_EQ(tree_sum(std::vector<double>{tiny, tiny, 1}), 1 + 2 * tiny);
  EXPECT_EQ(tree_sum(std::vector<double>{1, tiny, 0, 0, tiny}), 1.0);
  EXPECT_EQ(tree_sum(std::vector<double>{}), 0.0);
  EXPECT_EQ(tree_sum(std::vector<double>{3}), 3.0);
  // Shards cut at a power of two agree: the tree of the trees.
  std::vector<double> values(13);
  RandomStream random(6, 6);
  for (double& v : values) v = random.normal();
  const std::span<const double> all(values);
  EXPECT_EQ(tree_sum(all), tree_sum(all.first(8)) + tree_sum(all.subspan(8)));
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  std::vector<float> a(6), b(8);
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch);
  const Tensor x = Tensor::of(a.data(), {2, 3}), y = Tensor::of(b.data(), {2, 4});
  EXPECT_THROW(convert(ctx, x, y), Error);
  EXPECT_THROW(add(ctx, x, y), Error);
  EXPECT_THROW(accumulate_column_sums(ctx, x, y), Error);
  std::vector<double> sums(2);
  EXPECT_THROW(block_squares(ctx, x, sums), Error);
}

}  // namespace
}  // namespace athanor::ops
