// The trace: spans nest without counting anything twice, and FLOPs and bytes are those of the shapes.
#include "ops/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/loss.h"
#include "ops/matrix.h"
#include "ops/routing.h"
#include "ops/update.h"

namespace athanor::ops {
namespace {

/// A context with a trace and 16 MiB each for tensors and scratch, all zeros.
class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    arena_.reserve(size_t{16} << 20);
    scratch_.reserve(size_t{16} << 20);
    ctx_.set_trace(&trace_);
  }

  Tensor tensor(DType dtype, int64_t rows, int64_t cols) {
    return arena_.tensor(dtype, {rows, cols});
  }
  Tensor vector(DType dtype, int64_t count) { return arena_.tensor(dtype, {count}); }
  PackedMatrix packed(DType dtype, int64_t n, int64_t k) {
    return PackedMatrix::allocate(arena_, dtype, n, k);
  }
  /// The one entry that there is.
  const TraceEntry& only() {
    EXPECT_EQ(trace_.entries().size(), 1u);
    return trace_.entries().at(0);
  }

  Arena arena_{"tensors"}, scratch_{"scratch"};
  Context ctx_{Threads(2), scratch_};
  Trace trace_;
};

TEST_F(TraceTest, ProductsCountTheirShape) {
  linear(ctx_, tensor(DType::kBF16, 7, 12), packed(DType::kBF16, 32, 12),
         tensor(DType::kF32, 7, 32));
  EXPECT_EQ(only().op, "linear");
  EXPECT_EQ(to_text(only().shape), "7x32x12");
  EXPECT_EQ(only().bf16_flops, 2.0 * 7 * 32 * 12);
  EXPECT_EQ(only().f32_flops, 0);
  EXPECT_EQ(only().bytes, 2.0 * 7 * 12 + 2.0 * 32 * 12 + 4.0 * 7 * 32);

  trace_.clear();
  accumulate_outer(ctx_, DType::kF32, tensor(DType::kF32, 9, 5), tensor(DType::kF32, 9, 6),
                   tensor(DType::kF32, 5, 6));
  EXPECT_EQ(only().f32_flops, 2.0 * 9 * 5 * 6);
  EXPECT_EQ(only().bf16_flops, 0);
  EXPECT_EQ(only().bytes, 4.0 * (9 * 5 + 9 * 6 + 2 * 5 * 6)) << "dw is read and written";

  trace_.clear();
  matmul(ctx_, DType::kF64, tensor(DType::kF64, 4, 6), tensor(DType::kF64, 5, 6),
         tensor(DType::kF64, 4, 5), {.transpose_b = true});
  EXPECT_EQ(only().f64_flops, 2.0 * 4 * 5 * 6);
}

TEST_F(TraceTest, GroupedProductsCountTheRowsThatThereAre) {
  const std::array<int64_t, 4> offsets = {0, 3, 3, 8};  // 8 of 20 rows, the second group empty
  std::vector<PackedMatrix> w;
  for (int g = 0; g < 3; ++g) w.push_back(packed(DType::kBF16, 16, 4));
  grouped_linear(ctx_, tensor(DType::kBF16, 20, 4), offsets, w, tensor(DType::kBF16, 20, 16));
  EXPECT_EQ(to_text(only().shape), "20x16x4x3");
  EXPECT_EQ(only().flops(), 2.0 * 8 * 16 * 4);
  EXPECT_EQ(only().bytes, 2.0 * (8 * 4 + 8 * 16 + 2 * 16 * 4)) << "no weights of an empty group";

  trace_.clear();
  grouped_accumulate_outer(ctx_, DType::kBF16, tensor(DType::kBF16, 20, 16),
                           tensor(DType::kBF16, 20, 4), offsets,
                           arena_.tensor(DType::kF32, {3, 16, 4}));
  EXPECT_EQ(only().flops(), 2.0 * 8 * 16 * 4);
  EXPECT_EQ(only().bytes, 2.0 * (8 * 16 + 8 * 4) + 4.0 * 2 * 2 * 16 * 4);
}

TEST_F(TraceTest, TheOutermostSpanHasTheTimeAndTheFlopsOfThoseInside) {
  constexpr int64_t kTokens = 150, kVocabulary = 48, kWidth = 16;
  const PackedMatrix forward = packed(DType::kF32, kVocabulary, kWidth);
  const PackedMatrix transposed = packed(DType::kF32, kWidth, kVocabulary);
  const Tensor h = tensor(DType::kF32, kTokens, kWidth);
  const Tensor dh = tensor(DType::kF32, kTokens, kWidth);
  const Tensor dtable = tensor(DType::kF32, kVocabulary, kWidth);
  const Tensor targets = vector(DType::kI32, kTokens), loss = vector(DType::kF32, kTokens);
  const double product = 2.0 * kTokens * kVocabulary * kWidth;
  for (const Isa isa : {Isa::kReference, detected_isa()}) {
    Context ctx(Threads(2), scratch_, isa);
    ctx.set_trace(&trace_);
    trace_.clear();
    vocabulary_loss(ctx, h, {&forward, nullptr}, targets, 0, loss, {}, {});
    EXPECT_EQ(only().op, "vocabulary_loss");
    EXPECT_EQ(only().calls, 1);
    EXPECT_EQ(only().flops(), product) << name_of(isa);

    trace_.clear();
    vocabulary_loss(ctx, h, {&forward, &transposed}, targets, 1, loss, dh, dtable);
    EXPECT_EQ(only().flops(), 3 * product)
        << "logits, gradients of h and of the table, " << name_of(isa);
  }
}

TEST_F(TraceTest, NewtonSchulzCountsHalfOfItsSymmetricProducts) {
  constexpr double kRows = 24, kCols = 40;
  const Tensor g = tensor(DType::kF32, 24, 40);
  newton_schulz(ctx_, DType::kF32, g, g, 5);
  EXPECT_EQ(only().op, "newton_schulz");
  // A = XXᵀ and its square have half their elements and the diagonal to compute; BX has all.
  const double step =
      kRows * (kRows + 1) * kCols + kRows * (kRows + 1) * kRows + 2 * kRows * kRows * kCols;
  EXPECT_DOUBLE_EQ(only().flops(), 5 * step);
  EXPECT_DOUBLE_EQ(newton_schulz_flops(24, 40, 5), 5 * step);
  EXPECT_DOUBLE_EQ(newton_schulz_flops(40, 24, 5), 5 * step);
}

TEST_F(TraceTest, VisiblePairsAreThoseThatTheMaskLeaves) {
  for (const int64_t queries : {1, 2, 7, 64, 65}) {
    for (const int64_t before : {0, 1, 5, 100}) {
      for (const int64_t window : {0, 1, 2, 6, 7, 8, 64, 200}) {
        int64_t pairs = 0;
        for (int64_t i = 0; i < queries; ++i) {
          const int64_t last = before + i;
          for (int64_t key = 0; key <= last; ++key) {
            if (window == 0 || key > last - window) ++pairs;
          }
        }
        EXPECT_EQ(visible_pairs(queries, before + queries, window), pairs)
            << queries << " queries after " << before << ", window " << window;
      }
    }
  }
}

TEST_F(TraceTest, AttentionCountsVisiblePairsOfEachDocument) {
  const Heads heads{.query = 4, .key = 2, .size = 8};
  const AttentionShape shape{.heads = heads, .window = 3, .scale = 1};
  const Tensor q = tensor(DType::kF32, 9, 32), k = tensor(DType::kF32, 9, 16);
  const Tensor v = tensor(DType::kF32, 9, 16), out = tensor(DType::kF32, 9, 32);
  const Tensor lse = tensor(DType::kF32, 9, 4);
  const std::vector<AttentionSegment> segments = {
      {0, 5, k.data(), v.data(), 5},
      {5, 4, k.row<float>(5), v.row<float>(5), 4},
  };
  // Windows of 3: 1 + 2 + 3 + 3 + 3 and 1 + 2 + 3 + 3 pairs; two products of 8 in each of 4 heads.
  attention(ctx_, q, segments, shape, out, lse);
  EXPECT_EQ(only().f32_flops, (12 + 9) * 2.0 * 2 * 8 * 4);
  EXPECT_EQ(only().bytes, static_cast<double>(4 * (9 * 32 + 2 * 9 * 16 + 9 * 32 + 9 * 4)));

  trace_.clear();
  const std::array<int64_t, 3> begins = {0, 5, 9};
  attention_backward(ctx_, out, q, k, v, out, lse, begins, shape, tensor(DType::kF32, 9, 32),
                     tensor(DType::kF32, 9, 16), tensor(DType::kF32, 9, 16));
  EXPECT_EQ(only().f32_flops, (12 + 9) * 5.0 * 2 * 8 * 4) << "five products a pair";
}

TEST_F(TraceTest, PassesOverMemoryCountTheirBytes) {
  const Tensor p = vector(DType::kF32, 100), g = vector(DType::kF32, 100);
  const Tensor m = vector(DType::kF32, 100), v = vector(DType::kF32, 100);
  adamw(ctx_, p, g, m, v, {});
  EXPECT_EQ(to_text(only().shape), "100");
  EXPECT_EQ(only().bytes, 7.0 * 400) << "four are read, three of them written";
  EXPECT_EQ(only().flops(), 0);

  trace_.clear();
  const Tensor order = vector(DType::kI32, 10);
  gather_rows(ctx_, tensor(DType::kF32, 10, 6), order, 4, tensor(DType::kBF16, 10, 6));
  EXPECT_EQ(only().bytes, 4.0 * 6 * (4 + 2)) << "only the rows that move";
}

TEST_F(TraceTest, CallsOfOneShapeInOnePartAreOneEntry) {
  const Tensor a = tensor(DType::kF32, 4, 8), b = tensor(DType::kF32, 2, 8);
  fill(ctx_, a, 1);
  {
    const PartScope outer(ctx_, "outer");
    fill(ctx_, a, 1);
    {
      const PartScope inner(ctx_, "inner");
      fill(ctx_, a, 1);
    }
    fill(ctx_, a, 1);
    fill(ctx_, b, 1);
  }
  fill(ctx_, a, 1);
  ASSERT_EQ(trace_.entries().size(), 4u);
  const std::vector<std::string_view> parts = {"", "outer", "inner", "outer"};
  const std::vector<int64_t> calls = {2, 2, 1, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace_.entries()[i].part, parts[i]);
    EXPECT_EQ(trace_.entries()[i].calls, calls[i]);
  }
}

TEST_F(TraceTest, EverySecondIsCountedOnce) {
  const auto start = std::chrono::steady_clock::now();
  const Tensor a = tensor(DType::kF32, 200, 200), b = tensor(DType::kF32, 200, 200);
  for (int i = 0; i < 20; ++i) {
    const TraceSpan outer(ctx_, "outer", [] { return OpWork{}; });
    matmul(ctx_, DType::kF32, a, a, b);
    const TraceSpan inner(ctx_, "inner", [] { return OpWork{.flops = 1}; });
    matmul(ctx_, DType::kF32, a, a, b);
  }
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(only().op, "outer");
  EXPECT_EQ(only().calls, 20);
  EXPECT_EQ(only().flops(), 20 * (2 * 2.0 * 200 * 200 * 200 + 1));
  EXPECT_GT(only().seconds, 0);
  EXPECT_LE(only().seconds, elapsed);
  EXPECT_EQ(trace_.seconds(), only().seconds);
}

TEST_F(TraceTest, PlanningLeavesNoTrace) {
  Arena plan("plan");
  Context planning(Threads(2), plan);
  planning.set_trace(&trace_);
  const Tensor g = tensor(DType::kF32, 24, 40);
  newton_schulz(planning, DType::kF32, g, g, 5);
  EXPECT_TRUE(trace_.entries().empty());
}

}  // namespace
}  // namespace athanor::ops
