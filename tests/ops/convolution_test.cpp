#include <fmt/format.h>

#include "ops/cca.h"
#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  Heads heads;
  std::vector<int64_t> segments;
  int64_t margin;
  int64_t tokens() const { return segments.back(); }
};

std::vector<int64_t> one_token_each(int64_t tokens) {
  std::vector<int64_t> begins(tokens + 1);
  for (int64_t t = 0; t <= tokens; ++t) begins[t] = t;
  return begins;
}

struct Convolution {
  Convolution(Precision precision, const Shape& s, bool with_history)
      : t(precision, 131), shape(s), history_used(with_history) {
    const int64_t tokens = s.tokens(), channels = s.heads.channels(), d = s.heads.size;
    const double size = 0.5 / std::sqrt(static_cast<double>(d));
    c = t.input(Kind::kReal, tokens, channels, 1.0, s.margin);
    history = t.input(Kind::kReal, 2 * (static_cast<int64_t>(s.segments.size()) - 1), channels);
    depthwise = t.input(Kind::kReal, channels, 2);
    depthwise_bias = t.input(Kind::kReal, 1, channels);
    grouped = t.input(Kind::kReal, channels * d, 2, size);
    grouped_bias = t.input(Kind::kReal, 1, channels);
    dy2 = t.input(Kind::kReal, tokens, channels, 1.0, s.margin);
    // Sums of 2d and of `tokens` products. In f32 each addition may round; in bf16 both factors of each product round,
    // by 2⁻⁸, and what they do to the sum grows as its root.
    const bool bf16 = precision == Precision::kBf16;
    const auto terms = [&](double length) {
      return bf16 ? 0x1p17 * (2 + std::sqrt(length)) : 8 + length;
    };
    const double inner = terms(2.0 * static_cast<double>(d));
    const double outer = inner + terms(static_cast<double>(tokens));
    const double sum = bf16 ? 4 * size : 1.0;  // of a product; of a partial sum
    y2 = t.written(Kind::kReal, tokens, channels, {.terms = inner, .scale = sum}, s.margin);
    dc = t.written(Kind::kReal, tokens, channels, {.terms = inner, .scale = 2 * sum}, s.margin);
    ddepthwise = t.accumulated(channels, 2, {.terms = outer, .scale = 8});
    ddepthwise_bias = t.accumulated(1, channels, {.terms = outer, .scale = 8});
    dgrouped = t.accumulated(channels * d, 2, {.terms = outer, .scale = 8});
    dgrouped_bias = t.accumulated(1, channels, {.terms = outer, .scale = 8});
  }

  Op op() {
    return [this](Context& ctx, const Operands& o) {
      const DType act = t.dtype(Kind::kAct, precision_of(o(c).dtype()));
      const int64_t d = shape.heads.size, heads = shape.heads.total();
      Arena packed("packed");
      packed.reserve(static_cast<size_t>(heads) *
                         (PackedMatrix::bytes(act, d, 2 * d) + PackedMatrix::bytes(act, 2 * d, d)) +
                     256 * static_cast<size_t>(heads));
      std::vector<PackedMatrix> forward, transposed;
      for (int64_t h = 0; h < heads; ++h) {
        forward.push_back(PackedMatrix::allocate(packed, act, d, 2 * d));
        transposed.push_back(PackedMatrix::allocate(packed, act, 2 * d, d));
      }
      pack_convolution(ctx, o(grouped), shape.heads, forward, transposed);
      const ConvolutionWeights w{o(depthwise), o(depthwise_bias), o(grouped_bias), forward,
                                 transposed};
      cca_convolution(ctx, o(c), history_used ? o(history) : Tensor(), shape.segments, shape.heads,
                      w, o(y2));
      cca_convolution_backward(ctx, o(dy2), o(c), shape.segments, shape.heads, w, o(dc),
                               {o(ddepthwise), o(ddepthwise_bias), o(dgrouped), o(dgrouped_bias)});
    };
  }
  Precision precision_of(DType real) const { return real == DType::kF64 ? Precision::kFp64 : base; }

  Twins t;
  Shape shape;
  bool history_used;
  Precision base = Precision::kFp32;
  int c, history, depthwise, depthwise_bias, grouped, grouped_bias, dy2, y2, dc;
  int ddepthwise, ddepthwise_bias, dgrouped, dgrouped_bias;
};

TWIN_ROW(cca_convolution, On::kThisCpu, "pack_convolution", "cca_convolution",
         "cca_convolution_backward") {
  const std::vector<Shape> shapes{{{1, 1, 1}, {0, 1}, 0},
                                  {{2, 2, 3}, {0, 1, 2, 5}, 1},
                                  {{7, 1, 17}, {0, 67}, 0},
                                  {{4, 2, 64}, {0, 63, 64, 200}, 0},
                                  {{2, 1, 16}, one_token_each(70), 2}};
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const bool with_history : {false, true}) {
      for (const Shape& s : shapes) {
        Convolution c(precision, s, with_history);
        c.base = precision;
        c.t.compare(fmt::format("{}/{} heads of {}, {} tokens", s.heads.query, s.heads.key,
                                s.heads.size, s.tokens()),
                    c.op());
      }
    }
  }
}

TEST(CcaConvolution, FollowsTheEquation) {
  // Straight from zaya1.md §2.2: two zero columns once, then both convolutions, so y1[−1] = b0.
  const Shape s{{1, 1, 2}, {0, 3, 4}, 0};
  for (const bool with_history : {false, true}) {
    Convolution c(Precision::kFp64, s, with_history);
    const auto result = c.t.run(Isa::kReference, Precision::kFp64, 1, c.op());
    const auto& x = c.t.start(c.c);
    const auto& past = c.t.start(c.history);
    const auto column = [&](int64_t segment, int64_t t, int64_t channel) {
      const int64_t begin = s.segments[segment];
      if (t >= begin) return x[t * 4 + channel];
      return with_history ? past[(2 * segment + 2 + t - begin) * 4 + channel] : 0.0;
    };
    for (int64_t segment = 0; segment < 2; ++segment) {
      for (int64_t t = s.segments[segment]; t < s.segments[segment + 1]; ++t) {
        const auto y1 = [&](int64_t at, int64_t channel) {
          return c.t.start(c.depthwise)[2 * channel] * column(segment, at - 1, channel) +
                 c.t.start(c.depthwise)[2 * channel + 1] * column(segment, at, channel) +
                 c.t.start(c.depthwise_bias)[channel];
        };
        for (int64_t o = 0; o < 4; ++o) {
          double y2 = c.t.start(c.grouped_bias)[o];
          for (int64_t i = 0; i < 2; ++i) {
            for (int64_t tap = 0; tap < 2; ++tap) {
              y2 += c.t.start(c.grouped)[(o * 2 + i) * 2 + tap] * y1(t - 1 + tap, o / 2 * 2 + i);
            }
          }
          EXPECT_NEAR(result[c.y2][t * 4 + o], y2, 1e-13);
        }
      }
    }
  }
}

TEST(CcaConvolution, BackwardIsTheDerivative) {
  Convolution c(Precision::kFp64, {{2, 1, 3}, {0, 1, 4, 6}, 0}, false);
  const auto run = [&] { return c.t.run(Isa::kReference, Precision::kFp64, 1, c.op()); };
  const auto loss = [&] { return dot(run()[c.y2], c.t.start(c.dy2)); };
  expect_gradient(c.t.start(c.c), run()[c.dc], loss);
  for (const auto& [input, output] : {std::pair{c.depthwise, c.ddepthwise},
                                      {c.depthwise_bias, c.ddepthwise_bias},
                                      {c.grouped, c.dgrouped},
                                      {c.grouped_bias, c.dgrouped_bias}}) {
    std::vector<double> gradient = run()[output];
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= c.t.start(output)[i];
    expect_gradient(c.t.start(input), gradient, loss);
  }
}

}  // namespace
}  // namespace athanor::ops
