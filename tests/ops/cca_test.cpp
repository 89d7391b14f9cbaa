#include "ops/cca.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  int64_t query, key, size, rotary;
  std::vector<int64_t> segments;
  int64_t margin;

  Heads heads() const { return {query, key, size}; }
  int64_t tokens() const { return segments.back(); }
};

std::vector<int64_t> one_token_each(int64_t tokens) {
  std::vector<int64_t> begins(tokens + 1);
  for (int64_t t = 0; t <= tokens; ++t) begins[t] = t;
  return begins;
}

std::vector<Shape> shapes() {
  return {{1, 1, 1, 0, {0, 1}, 0},
          {2, 2, 3, 2, {0, 1, 2, 5}, 1},
          {7, 1, 17, 16, {0, 67}, 0},
          {4, 2, 64, 32, {0, 63, 64, 200}, 0},
          {2, 1, 16, 8, one_token_each(70), 2},
          {2, 2, 37, 36, {0, 130, 131}, 0}};
}
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16};

std::string name(const Shape& s) {
  return fmt::format("{}/{} heads of {}, {} tokens in {}", s.query, s.key, s.size, s.tokens(),
                     s.segments.size() - 1);
}

/// Positions restart at each document.
std::vector<double> positions_of(const Shape& s) {
  std::vector<double> positions;
  for (size_t d = 0; d + 1 < s.segments.size(); ++d) {
    for (int64_t t = s.segments[d]; t < s.segments[d + 1]; ++t) {
      positions.push_back(static_cast<double>(t - s.segments[d]));
    }
  }
  return positions;
}

TWIN_ROW(qk_mean, On::kThisCpu, "qk_mean", "qk_mean_backward") {
  for (const Shape& s : shapes()) {
    Twins t(Precision::kFp32, 101);
    const int64_t channels = s.heads().channels();
    const int c = t.input(Kind::kReal, s.tokens(), channels, 1.0, s.margin);
    const int z = t.accumulated(s.tokens(), channels, {.terms = 12}, s.margin);
    const int dc = t.accumulated(s.tokens(), channels, {.terms = 12}, s.margin);
    t.compare(name(s), [&](Context& ctx, const Operands& o) {
      qk_mean(ctx, o(c), s.heads(), o(z));
      qk_mean_backward(ctx, o(c), s.heads(), o(dc));
    });
  }
}

TEST(QkMean, BackwardIsTheDerivative) {
  const Heads heads{6, 2, 2};
  Twins t(Precision::kFp64, 102);
  const int c = t.input(Kind::kReal, 2, heads.channels());
  const int z = t.accumulated(2, heads.channels(), {});
  const int dz = t.input(Kind::kReal, 2, heads.channels());
  const int dc = t.accumulated(2, heads.channels(), {});
  t.start(dc).assign(t.start(dc).size(), 0.0);
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      qk_mean(ctx, o(c), heads, o(z));
      qk_mean_backward(ctx, o(dz), heads, o(dc));
    });
  };
  expect_gradient(t.start(c), run()[dc], [&] { return dot(run()[z], t.start(dz)); });
}

struct NormRope {
  NormRope(Precision precision, const Shape& s) : t(precision, 111), shape(s) {
    const Heads heads = s.heads();
    const int64_t tokens = s.tokens(), query = s.query * s.size, key = s.key * s.size;
    z = t.input(Kind::kReal, tokens, heads.channels(), 1.0, s.margin);
    temperature = t.input(Kind::kReal, 1, s.key);
    positions = t.input(Kind::kIndex, 1, tokens);
    t.start(positions) = positions_of(s);
    const auto size = static_cast<double>(s.size);
    q = t.written(Kind::kAct, tokens, query, {.terms = 8 + size / 4}, s.margin);
    k = t.written(Kind::kAct, tokens, key, {.terms = 8 + size / 4}, s.margin);
    // A head of one element near 0 has a large inverse norm: relative to each, not to the largest.
    inv = t.written(Kind::kReal, tokens, heads.total(), {.terms = 8 + size / 4});
    dq = t.input(Kind::kReal, tokens, query, 1.0, s.margin);
    dk = t.input(Kind::kReal, tokens, key, 1.0, s.margin);
    const double terms = 16 + size / 2;
    // The part along z cancels: the bound is that of the terms, up to √d · |dq| / |z|.
    dz = t.written(Kind::kReal, tokens, heads.channels(), {.terms = terms, .scale = 32}, s.margin);
    dtemperature = t.accumulated(
        1, s.key, {.terms = terms + static_cast<double>(tokens) / 4, .scale = 10 * size + 4});
  }
  Op op() {
    return [this](Context& ctx, const Operands& o) {
      Arena memory("rope");
      const DType real = o(z).dtype();
      memory.reserve(4096 + 512 * static_cast<size_t>(shape.tokens() * (shape.rotary + 1)));
      const RopeTable rope = make_rope_table(memory, real, 1e4, shape.rotary, shape.tokens());
      qk_norm_rope(ctx, o(z), shape.heads(), o(temperature), rope, o(positions), o(q), o(k),
                   o(inv));
      qk_norm_rope_backward(ctx, o(dq), o(dk), o(z), shape.heads(), o(temperature), rope,
                            o(positions), o(inv), o(dz), o(dtemperature));
    };
  }

  Twins t;
  Shape shape;
  int z, temperature, positions, q, k, inv, dq, dk, dz, dtemperature;
};

TWIN_ROW(qk_norm_rope, On::kThisCpu, "qk_norm_rope", "qk_norm_rope_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Shape& s : shapes()) {
      NormRope n(precision, s);
      // Elements of heads of size 1 stay away from 0, where 1/norm explodes.
      for (double& value : n.t.start(n.z)) {
        if (s.size == 1) value = static_cast<float>(value + std::copysign(1.0, value));
      }
      n.t.compare(name(s), n.op());
    }
  }
}

TEST(QkNormRope, BackwardIsTheDerivative) {
  NormRope n(Precision::kFp64, {4, 2, 6, 4, {0, 3, 5}, 0});
  const auto run = [&] { return n.t.run(Isa::kReference, Precision::kFp64, 1, n.op()); };
  const auto loss = [&] {
    const auto result = run();
    return dot(result[n.q], n.t.start(n.dq)) + dot(result[n.k], n.t.start(n.dk));
  };
  expect_gradient(n.t.start(n.z), run()[n.dz], loss);
  std::vector<double> gradient = run()[n.dtemperature];
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= n.t.start(n.dtemperature)[i];
  expect_gradient(n.t.start(n.temperature), gradient, loss);
}

TEST(QkNormRope, AHeadOfZerosGivesZerosAndAFiniteGradient) {
  for (const Isa isa : instruction_sets()) {
    NormRope n(Precision::kFp32, {4, 2, 6, 4, {0, 3}, 0});
    std::fill(n.t.start(n.z).begin(), n.t.start(n.z).end(), 0.0);
    const auto result = n.t.run(isa, Precision::kFp32, 1, n.op());
    for (const int output : {n.q, n.k}) {
      for (const double value : result[output]) EXPECT_EQ(value, 0.0) << name_of(isa);
    }
    for (const int output : {n.inv, n.dz, n.dtemperature}) {
      for (const double value : result[output]) EXPECT_TRUE(std::isfinite(value)) << name_of(isa);
    }
    for (const double value : result[n.inv]) EXPECT_NEAR(value, 1e6, 1) << name_of(isa);
  }
}

TEST(QkNormRope, RotatesHalvesByTheAngleOfThePosition) {
  // One head of 4, all rotated: pairs (0, 2) and (1, 3), frequencies 1 and θ^(−1/2).
  std::vector<double> z{0.5, 0.1, -0.3, 0.7, 0, 0, 0, 1}, temperature{2.0}, q(4), k(4), inv(2);
  std::vector<int32_t> position{3};
  Arena memory("rope");
  memory.reserve(1 << 16);
  Context ctx(Threads(1), memory, Isa::kReference);
  const RopeTable rope = make_rope_table(memory, DType::kF64, 100.0, 4, 5);
  qk_norm_rope(ctx, Tensor::of(z.data(), {1, 8}), {1, 1, 4}, Tensor::of(temperature.data(), {1}),
               rope, Tensor::of(position.data(), {1}), Tensor::of(q.data(), {1, 4}),
               Tensor::of(k.data(), {1, 4}), Tensor::of(inv.data(), {1, 2}));
  const double scale = 2.0 / std::sqrt(0.25 + 0.01 + 0.09 + 0.49);
  EXPECT_NEAR(q[0], scale * (0.5 * std::cos(3) + 0.3 * std::sin(3)), 1e-11);
  EXPECT_NEAR(q[2], scale * (-0.3 * std::cos(3) + 0.5 * std::sin(3)), 1e-11);
  EXPECT_NEAR(q[1], scale * (0.1 * std::cos(0.3) - 0.7 * std::sin(0.3)), 1e-11);
  EXPECT_NEAR(q[3], scale * (0.7 * std::cos(0.3) + 0.1 * std::sin(0.3)), 1e-11);
  EXPECT_NEAR(k[1], -4.0 * std::sin(0.3), 1e-11);
  EXPECT_NEAR(k[3], 4.0 * std::cos(0.3), 1e-11);
}

TWIN_ROW(value_delay, On::kThisCpu, "value_delay", "value_delay_backward") {
  for (const Precision precision : kPrecisions) {
    for (const bool with_history : {false, true}) {
      for (const Shape& s : shapes()) {
        Twins t(precision, 121);
        const int64_t tokens = s.tokens(), h = s.size;
        const auto documents = static_cast<int64_t>(s.segments.size()) - 1;
        const int now = t.input(Kind::kReal, tokens, h, 1.0, 3);
        const int late = t.input(Kind::kReal, tokens, h, 1.0, 1);
        const int history = t.input(Kind::kReal, documents, h);
        const int v = t.written(Kind::kAct, tokens, 2 * h, {.terms = 0}, s.margin);
        const int dv = t.input(Kind::kReal, tokens, 2 * h, 1.0, s.margin);
        const int dnow = t.written(Kind::kAct, tokens, h, {.terms = 0}, 2);
        const int dlate = t.written(Kind::kReal, tokens, h, {.terms = 0}, s.margin);
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          value_delay(ctx, o(now), o(late), with_history ? o(history) : Tensor(), s.segments, o(v));
          value_delay_backward(ctx, o(dv), s.segments, o(dnow), o(dlate));
        });
      }
    }
  }
}

TEST(ValueDelay, TakesTheTokenBeforeInsideADocumentOnly) {
  std::vector<double> now{1, 2, 3}, late{10, 20, 30}, v(6), dnow(3), dlate(3);
  const std::vector<int64_t> segments{0, 2, 3};
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch, Isa::kReference);
  value_delay(ctx, Tensor::of(now.data(), {3, 1}), Tensor::of(late.data(), {3, 1}), {}, segments,
              Tensor::of(v.data(), {3, 2}));
  EXPECT_EQ(v, (std::vector<double>{1, 0, 2, 10, 3, 0}));
  value_delay_backward(ctx, Tensor::of(v.data(), {3, 2}), segments, Tensor::of(dnow.data(), {3, 1}),
                       Tensor::of(dlate.data(), {3, 1}));
  EXPECT_EQ(dnow, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(dlate, (std::vector<double>{10, 0, 0}));
}

}  // namespace
}  // namespace athanor::ops
