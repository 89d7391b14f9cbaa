#include "ops/routing.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  int64_t tokens, width, margin;
};
constexpr Shape kShapes[] = {{1, 1, 0},   {1, 257, 0},  {3, 17, 2},
                             {65, 64, 0}, {130, 31, 1}, {200, 128, 0}};
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16};

std::string name(const Shape& s) { return fmt::format("[{}, {}]", s.tokens, s.width); }

TWIN_ROW(gelu, On::kThisCpu, "gelu", "gelu_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Kind kind : {Kind::kReal, Kind::kAct}) {
      for (const Shape& s : kShapes) {
        Twins t(precision, 31);
        const int x = t.input(Kind::kReal, s.tokens, s.width, 2.0, s.margin);
        const int dy = t.input(kind, s.tokens, s.width, 1.0, s.margin);
        const int y = t.written(kind, s.tokens, s.width, {}, s.margin);
        const int dx = t.written(kind, s.tokens, s.width, {.terms = 8}, s.margin);
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          gelu(ctx, o(x), o(y));
          gelu_backward(ctx, o(dy), o(x), o(dx));
        });
      }
    }
  }
}

TEST(Gelu, IsWithin6em7OfItselfFromTailToTail) {
  std::vector<float> x, y;
  for (float v = -13.0f; v < 13.0f; v += 0.0037f) x.push_back(v);
  for (const float v : {0.0f, -0.0f, 1e-20f, -1e-20f, 1e10f, -1e10f, 3e38f}) x.push_back(v);
  y.resize(x.size());
  const auto n = static_cast<int64_t>(x.size());
  Arena scratch("scratch");
  scratch.reserve(64);
  for (const Isa isa : instruction_sets()) {
    Context ctx(Threads(1), scratch, isa);
    gelu(ctx, Tensor::of(x.data(), {n}), Tensor::of(y.data(), {n}));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i] * 0.5 * std::erfc(-static_cast<double>(x[i]) * M_SQRT1_2);
      // Below x = −12.9 Φ(x) is subnormal and has a unit of its own.
      ASSERT_NEAR(y[i], exact, 6e-7 * std::abs(exact) + 0x1p-149 * std::abs(x[i]))
          << name_of(isa) << " at " << x[i];
    }
  }
}

TEST(Gelu, BackwardIsTheDerivative) {
  Twins t(Precision::kFp64, 32);
  const int x = t.input(Kind::kReal, 1, 40, 2.0);
  const int dy = t.input(Kind::kReal, 1, 40);
  const int y = t.written(Kind::kReal, 1, 40, {});
  const int dx = t.written(Kind::kReal, 1, 40, {});
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      gelu(ctx, o(x), o(y));
      gelu_backward(ctx, o(dy), o(x), o(dx));
    });
  };
  for (int64_t i = 0; i < 40; ++i) {
    const double v = t.start(x)[i];
    EXPECT_NEAR(run()[y][i], v * 0.5 * std::erfc(-v * M_SQRT1_2), 1e-15);
  }
  expect_gradient(t.start(x), run()[dx], [&] { return dot(run()[y], t.start(dy)); });
}

TWIN_ROW(depth_average, On::kThisCpu, "depth_average", "depth_average_backward") {
  for (const Shape& s : kShapes) {
    Twins t(Precision::kFp32, 33);
    const int r = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
    const int gamma = t.input(Kind::kReal, 1, s.width);
    const int previous = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
    const int state = t.written(Kind::kReal, s.tokens, s.width, {}, s.margin);
    const int dprevious = t.written(Kind::kReal, s.tokens, s.width, {}, s.margin);
    const int dgamma = t.accumulated(1, s.width, {.terms = 8 + static_cast<double>(s.tokens) / 4});
    const Op op = [&](Context& ctx, const Operands& o) {
      depth_average(ctx, o(r), o(gamma), o(previous), o(state));
      depth_average_backward(ctx, o(r), o(gamma), o(previous), o(dprevious), o(dgamma));
    };
    t.compare(name(s), op);
    if (s.tokens * s.width > 60) continue;
    // The gradient that arrives is r itself: L = Σ r ⊙ state with r held.
    const std::vector<double> d = t.start(r);
    const auto run = [&] { return t.run(Isa::kReference, Precision::kFp64, 1, op); };
    const auto loss = [&] { return dot(run()[state], d); };
    std::vector<double> gradient = run()[dgamma];
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= t.start(dgamma)[i];
    expect_gradient(t.start(gamma), gradient, loss);
    expect_gradient(t.start(previous), run()[dprevious], loss);
  }
}

TWIN_ROW(route, On::kThisCpu, "route", "route_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Shape& s :
         {Shape{1, 2, 0}, {3, 17, 1}, {200, 9, 0}, {67, 25, 0}, {1500, 5, 2}, {9, 65, 0}}) {
      Twins t(precision, 41);
      const int logits = t.input(Kind::kReal, s.tokens, s.width, 2.0, s.margin);
      const int bias = t.input(Kind::kReal, 1, s.width, 0.1);
      const int p = t.written(Kind::kReal, s.tokens, s.width, {.terms = 16}, s.margin);
      const int expert = t.written(Kind::kIndex, 1, s.tokens, {});
      const int weight = t.written(Kind::kReal, 1, s.tokens, {.terms = 16});
      const int dweight = t.input(Kind::kReal, 1, s.tokens);
      // 1 − p rounds at the size of 1, however small it is.
      const int dlogits =
          t.written(Kind::kAct, s.tokens, s.width, {.terms = 16, .scale = 3}, s.margin);
      t.compare(name(s), [&](Context& ctx, const Operands& o) {
        route(ctx, o(logits), o(bias), o(p), o(expert), o(weight));
        route_backward(ctx, o(dweight), o(p), o(expert), o(dlogits));
      });
    }
  }
}

struct Routed {
  std::vector<float> p;
  std::vector<int32_t> expert;
  std::vector<float> weight;
};
Routed route_one(Isa isa, std::vector<float> logits, std::vector<float> bias) {
  const auto n = static_cast<int64_t>(logits.size());
  Routed r{std::vector<float>(logits.size()), {-1}, {-1.0f}};
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch, isa);
  route(ctx, Tensor::of(logits.data(), {1, n}), Tensor::of(bias.data(), {n}),
        Tensor::of(r.p.data(), {1, n}), Tensor::of(r.expert.data(), {1}),
        Tensor::of(r.weight.data(), {1}));
  return r;
}

TEST(Route, TakesTheLowestIndexOnTiesAndNothingForTheSkipClass) {
  for (const Isa isa : instruction_sets()) {
    EXPECT_EQ(route_one(isa, {1, 1, 1}, {0, 0, 0}).expert[0], 0);
    EXPECT_EQ(route_one(isa, {0, 1, 1, 0}, {0, 0, 0, 0}).expert[0], 1);
    const Routed skipped = route_one(isa, {0, 0, 9}, {0, 0, -0.5f});
    EXPECT_EQ(skipped.expert[0], 2);
    EXPECT_EQ(skipped.weight[0], 0.0f);
    EXPECT_EQ(route_one(isa, {0, 1, 9}, {0, 0, -1}).expert[0], 1) << "the bias decides";
  }
}

TEST(Route, LivesWithInfiniteAndHugeLogitsButNotWithNaN) {
  const float inf = INFINITY;
  for (const Isa isa : instruction_sets()) {
    EXPECT_EQ(route_one(isa, {-inf, 0, 0}, {0, 0, 0}).p, (std::vector<float>{0, 0.5f, 0.5f}));
    EXPECT_EQ(route_one(isa, {3e38f, -3e38f}, {0, 0}).p, (std::vector<float>{1, 0}));
    EXPECT_EQ(route_one(isa, {-inf, -inf}, {0, 0}).p, (std::vector<float>{0.5f, 0.5f}));
    EXPECT_EQ(route_one(isa, {inf, 0, inf, -inf}, {0, 0, 0, 0}).p,
              (std::vector<float>{0.5f, 0, 0.5f, 0}));
    for (const float other : {0.0f, inf, -inf}) {
      EXPECT_TRUE(std::isnan(route_one(isa, {other, NAN, 0}, {0, 0, 0}).p[1])) << name_of(isa);
    }
  }
}

TEST(Route, BackwardIsTheDerivative) {
  const int64_t tokens = 6, classes = 4;
  Twins t(Precision::kFp64, 42);
  const int logits = t.input(Kind::kReal, tokens, classes);
  const int bias = t.input(Kind::kReal, 1, classes, 0.1);
  const int p = t.written(Kind::kReal, tokens, classes, {});
  const int expert = t.written(Kind::kIndex, 1, tokens, {});
  const int weight = t.written(Kind::kReal, 1, tokens, {});
  const int dweight = t.input(Kind::kReal, 1, tokens);
  const int dlogits = t.written(Kind::kReal, tokens, classes, {});
  t.start(logits)[3] = 5;  // token 0 is skipped
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      route(ctx, o(logits), o(bias), o(p), o(expert), o(weight));
      route_backward(ctx, o(dweight), o(p), o(expert), o(dlogits));
    });
  };
  ASSERT_EQ(run()[expert][0], 3);
  expect_gradient(t.start(logits), run()[dlogits],
                  [&] { return dot(run()[weight], t.start(dweight)); });
}

/// Random experts of [0, experts]; expert 1 stays without a token.
std::vector<double> random_experts(RandomStream& random, int64_t tokens, int64_t experts) {
  std::vector<double> choice(tokens);
  for (double& e : choice) {
    e = static_cast<double>(random.below(static_cast<uint64_t>(experts) + 1));
    if (e == 1) e = 0;
  }
  return choice;
}

TEST(SortByExpert, IsStableAndLeavesTheSkippedOut) {
  std::vector<int32_t> choice{2, 0, 3, 2, 0, 3, 2}, order(7);
  std::vector<int64_t> offsets(4);
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch);
  sort_by_expert(ctx, Tensor::of(choice.data(), {7}), 3, Tensor::of(order.data(), {7}), offsets);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 2, 2, 5}));
  EXPECT_EQ(order, (std::vector<int32_t>{1, 4, 0, 3, 6, -1, -1}));
  choice[3] = 4;
  EXPECT_THROW(sort_by_expert(ctx, Tensor::of(choice.data(), {7}), 3, Tensor::of(order.data(), {7}),
                              offsets),
               Error);
  Arena plan("plan");
  Context planning(Threads(1), plan);
  sort_by_expert(planning, plan.tensor(DType::kI32, {7}), 3, plan.tensor(DType::kI32, {7}),
                 offsets);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 7, 7, 7}));
}

TWIN_ROW(expert_rows, On::kThisCpu, "sort_by_expert", "gather_rows", "scatter_add_rows", "combine",
         "combine_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Shape& s : {Shape{1, 1, 0}, {5, 17, 2}, {67, 64, 0}, {300, 131, 1}}) {
      const int64_t experts = 3;
      Twins t(precision, 51);
      const int choice = t.input(Kind::kIndex, 1, s.tokens);
      t.start(choice) = random_experts(t.random(), s.tokens, experts);
      const int order = t.written(Kind::kIndex, 1, s.tokens, {});
      const int x = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
      const int act = t.input(Kind::kAct, s.tokens, s.width, 1.0, s.margin);
      const int weight = t.input(Kind::kReal, 1, s.tokens);
      // Rows past the count are left alone: these operands start from values.
      const int gathered = t.written(Kind::kAct, s.tokens, s.width, {.terms = 0}, s.margin);
      const int scattered = t.accumulated(s.tokens, s.width, {.terms = 1}, s.margin);
      const int combined = t.written(Kind::kReal, s.tokens, s.width, {.terms = 1}, s.margin);
      const int dy = t.written(Kind::kAct, s.tokens, s.width, {.terms = 1}, s.margin);
      const double terms = 8 + static_cast<double>(s.width) / 4;
      const int dweight = t.written(Kind::kReal, 1, s.tokens, {.terms = terms});
      t.compare(name(s), [&](Context& ctx, const Operands& o) {
        std::vector<int64_t> offsets(experts + 1);
        sort_by_expert(ctx, o(choice), experts, o(order), offsets);
        const int64_t count = ctx.planning() ? s.tokens : offsets[experts];
        gather_rows(ctx, o(x), o(order), count, o(gathered));
        scatter_add_rows(ctx, o(act), o(order), count, o(scattered));
        combine(ctx, o(act), o(order), count, o(weight), o(combined));
        combine_backward(ctx, o(x), o(act), o(order), count, o(weight), o(dy), o(dweight));
      });
    }
  }
}

TWIN_ROW(silu_product, On::kThisCpu, "silu_product", "silu_product_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Kind kind : {Kind::kReal, Kind::kAct}) {
      for (const Shape& s : kShapes) {
        Twins t(precision, 61);
        const int64_t count = s.tokens - s.tokens / 3;
        const int gate_up = t.input(kind, s.tokens, 2 * s.width, 3.0, s.margin);
        const int dh = t.input(kind, s.tokens, s.width, 1.0, s.margin);
        const int h = t.written(Kind::kAct, s.tokens, s.width, {.terms = 8}, s.margin);
        const int d = t.written(kind, s.tokens, 2 * s.width, {.terms = 8}, s.margin);
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          silu_product(ctx, o(gate_up), count, o(h));
          silu_product_backward(ctx, o(dh), o(gate_up), count, o(d));
        });
      }
    }
  }
}

TEST(SiluProduct, BackwardIsTheDerivative) {
  const int64_t rows = 3, width = 5;
  Twins t(Precision::kFp64, 62);
  const int gate_up = t.input(Kind::kReal, rows, 2 * width, 2.0);
  const int dh = t.input(Kind::kReal, rows, width);
  const int h = t.written(Kind::kReal, rows, width, {});
  const int d = t.written(Kind::kReal, rows, 2 * width, {});
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      silu_product(ctx, o(gate_up), rows, o(h));
      silu_product_backward(ctx, o(dh), o(gate_up), rows, o(d));
    });
  };
  expect_gradient(t.start(gate_up), run()[d], [&] { return dot(run()[h], t.start(dh)); });
}

}  // namespace
}  // namespace athanor::ops
