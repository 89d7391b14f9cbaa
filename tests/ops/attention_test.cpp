#include "ops/attention.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  Heads heads;
  std::vector<int64_t> segments;
  int64_t window;
  int64_t margin;
  int64_t tokens() const { return segments.back(); }
  std::string name() const {
    return fmt::format("{}/{} heads of {}, {} tokens in {}, window {}", heads.query, heads.key,
                       heads.size, tokens(), segments.size() - 1, window);
  }
};

std::vector<int64_t> one_token_each(int64_t tokens) {
  std::vector<int64_t> begins(tokens + 1);
  for (int64_t t = 0; t <= tokens; ++t) begins[t] = t;
  return begins;
}

std::vector<Shape> shapes() {
  return {{{1, 1, 1}, {0, 1}, 0, 0},
          {{2, 2, 3}, {0, 1, 2, 5, 80}, 0, 1},
          {{7, 1, 17}, {0, 67}, 0, 0},
          {{4, 2, 64}, {0, 63, 64, 200}, 0, 0},
          {{4, 2, 64}, {0, 200}, 1, 0},
          {{2, 1, 16}, {0, 150, 151, 300}, 37, 3},
          {{2, 1, 16}, {0, 130}, 64, 0},
          {{2, 1, 16}, {0, 50}, 1000, 0},
          {{3, 3, 16}, one_token_each(70), 5, 0},
          {{2, 2, 128}, {0, 129}, 0, 0},
          {{70, 1, 5}, {0, 9}, 0, 0},
          {{1, 1, 257}, {0, 65}, 0, 0}};
}

struct SelfAttention {
  SelfAttention(Precision precision, const Shape& s, Kind dout_kind = Kind::kReal)
      : t(precision, 141), shape(s) {
    const int64_t tokens = s.tokens(), width = s.heads.query * s.heads.size;
    const int64_t key_width = s.heads.key * s.heads.size;
    const auto d = static_cast<double>(s.heads.size), length = static_cast<double>(tokens);
    q = t.input(Kind::kAct, tokens, width, 1.0, s.margin);
    k = t.input(Kind::kAct, tokens, key_width);
    v = t.input(Kind::kAct, tokens, key_width);
    dout = t.input(dout_kind, tokens, width, 1.0, s.margin);
    // A logit is a sum of d products; its absolute error is the relative one of a probability.
    const double terms = 16 + d + length / 8;
    // In bf16 p, ds and dout are rounded as factors of products, the twin's are not: 2⁻⁹ of each term for one factor
    // (out), 2⁻⁸ for two, and the terms of a sum come to about twice the largest sum. The same code in fp32 is held to
    // the tight bounds.
    const bool bf16 = precision == Precision::kBf16;
    const auto bound = [&](double roundings, double scale) {
      return bf16 ? Bound{.terms = roundings == 1 ? 0x1p16 : 0x1p17}
                  : Bound{.terms = roundings * terms, .scale = scale};
    };
    out = t.written(Kind::kAct, tokens, width, bound(1, 4), s.margin);
    lse = t.written(Kind::kReal, tokens, s.heads.query, {.terms = terms, .scale = 4}, s.margin);
    // In bf16 the rounding of `out` enters the gradient through Σ dout ⊙ out, but equally in the twin below.
    dq = t.written(Kind::kReal, tokens, width, bound(4, 4), s.margin);
    dk = t.written(Kind::kReal, tokens, key_width, bound(8, 8), s.margin);
    dv = t.written(Kind::kReal, tokens, key_width, bound(8, 8), s.margin);
  }
  AttentionShape attention_shape() const {
    return {shape.heads, shape.window, 1.0 / std::sqrt(static_cast<double>(shape.heads.size))};
  }
  void forward(Context& ctx, const Operands& o) const {
    std::vector<AttentionSegment> parts;
    for (size_t i = 0; i + 1 < shape.segments.size(); ++i) {
      const int64_t begin = shape.segments[i], count = shape.segments[i + 1] - begin;
      parts.push_back({begin, count, o(k).slice_rows(begin, count).data(),
                       o(v).slice_rows(begin, count).data(), count});
    }
    attention(ctx, o(q), parts, attention_shape(), o(out), o(lse));
  }
  void backward(Context& ctx, const Operands& o) const {
    attention_backward(ctx, o(dout), o(q), o(k), o(v), o(out), o(lse), shape.segments,
                       attention_shape(), o(dq), o(dk), o(dv));
  }

  Twins t;
  Shape shape;
  int q, k, v, dout, out, lse, dq, dk, dv;
};

TWIN_ROW(attention, On::kThisCpu, "attention") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Shape& s : shapes()) {
      SelfAttention a(precision, s);
      a.t.compare(s.name(), [&](Context& ctx, const Operands& o) { a.forward(ctx, o); });
    }
  }
}

TWIN_ROW(attention_backward, On::kThisCpu, "attention_backward") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Kind dout : {Kind::kReal, Kind::kAct}) {
      for (const Shape& s : shapes()) {
        SelfAttention a(precision, s, dout);
        // The forward's results as inputs: the same for the kernel and its twin.
        const auto forward = [&](Context& ctx, const Operands& o) { a.forward(ctx, o); };
        const auto result = a.t.run(Isa::kReference, precision, 1, forward);
        a.t.start(a.out) = result[a.out];
        a.t.start(a.lse) = result[a.lse];
        a.t.compare(s.name(), [&](Context& ctx, const Operands& o) { a.backward(ctx, o); });
      }
    }
  }
}

TWIN_ROW(attention_backward_of_a_long_segment, On::kThisCpu, "attention_backward") {
  for (const int64_t window : {0, 100}) {
    SelfAttention a(Precision::kFp32, {{2, 1, 8}, {0, 3, 2100}, window, 0});
    const auto forward = [&](Context& ctx, const Operands& o) { a.forward(ctx, o); };
    const auto result = a.t.run(detected_isa(), Precision::kFp32, 1, forward);
    a.t.start(a.out) = result[a.out];
    a.t.start(a.lse) = result[a.lse];
    const auto backward = [&](Context& ctx, const Operands& o) { a.backward(ctx, o); };
    a.t.compare(a.shape.name(), backward);
  }
}

TEST(Attention, BackwardIsTheDerivative) {
  for (const int64_t window : {0, 2}) {
    SelfAttention a(Precision::kFp64, {{4, 2, 3}, {0, 1, 6}, window, 0});
    const auto run = [&] {
      return a.t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
        a.forward(ctx, o);
        a.backward(ctx, o);
      });
    };
    const auto loss = [&] { return dot(run()[a.out], a.t.start(a.dout)); };
    expect_gradient(a.t.start(a.q), run()[a.dq], loss);
    expect_gradient(a.t.start(a.k), run()[a.dk], loss);
    expect_gradient(a.t.start(a.v), run()[a.dv], loss);
  }
}

TEST(Attention, AQueryThatSeesOneKeyGivesItNoGradient) {
  // Its weight is 1 whatever the logit: what rounding would leave is noise that weight decay and clipping then see.
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Shape& s :
         {Shape{{4, 2, 19}, {0, 90}, 1, 0}, {{4, 2, 19}, one_token_each(9), 0, 0}}) {
      for (const Isa isa : instruction_sets()) {
        SelfAttention a(precision, s);
        const auto result = a.t.run(isa, precision, 1, [&](Context& ctx, const Operands& o) {
          a.forward(ctx, o);
          a.backward(ctx, o);
        });
        for (const int gradient : {a.dq, a.dk}) {
          for (const double value : result[gradient]) ASSERT_EQ(value, 0.0) << name_of(isa);
        }
      }
    }
  }
}

TEST(Attention, Bf16ProbabilitiesAreRoundedToNearest) {
  // With values of 1 each output is the sum of a row's probabilities over itself: cut off instead of rounded they would
  // all be small by a quarter of a percent.
  for (const Isa isa : instruction_sets()) {
    SelfAttention a(Precision::kBf16, {{2, 1, 16}, {0, 300}, 0, 0});
    std::fill(a.t.start(a.v).begin(), a.t.start(a.v).end(), 1.0);
    const auto result = a.t.run(isa, Precision::kBf16, 1,
                                [&](Context& ctx, const Operands& o) { a.forward(ctx, o); });
    const std::vector<double>& out = result[a.out];
    double sum = 0;
    const size_t half = out.size() / 2;
    for (size_t i = half; i < out.size(); ++i) sum += out[i];
    EXPECT_NEAR(sum / static_cast<double>(out.size() - half), 1.0, 5e-4) << name_of(isa);
  }
}

TEST(Attention, AQueryHasTheSameBitsAloneAndAmongOthers) {
  // Decoding: each query by itself, or a few together, against the keys so far equals the full forward.
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const int64_t window : {0, 7, 70}) {
      for (const Isa isa : instruction_sets()) {
        SelfAttention a(precision, {{6, 2, 19}, {0, 141}, window, 0});
        const auto whole =
            a.t.run(isa, precision, 1, [&](Context& ctx, const Operands& o) { a.forward(ctx, o); });
        for (const int64_t chunk : {1, 3, 50}) {
          const auto pieces = a.t.run(isa, precision, 1, [&](Context& ctx, const Operands& o) {
            for (int64_t begin = 0; begin < 141; begin += chunk) {
              const int64_t count = std::min<int64_t>(chunk, 141 - begin);
              const AttentionSegment part{0, count, o(a.k).data(), o(a.v).data(), begin + count};
              attention(ctx, o(a.q).slice_rows(begin, count), std::span(&part, 1),
                        a.attention_shape(), o(a.out).slice_rows(begin, count),
                        o(a.lse).slice_rows(begin, count));
            }
          });
          EXPECT_EQ(whole[a.out], pieces[a.out]) << name_of(isa) << " by " << chunk;
          EXPECT_EQ(whole[a.lse], pieces[a.lse]) << name_of(isa) << " by " << chunk;
        }
      }
    }
  }
}

TEST(Attention, LivesWithHugeLogitsAndKeepsDocumentsApart) {
  for (const Isa isa : instruction_sets()) {
    SelfAttention a(Precision::kFp32, {{2, 1, 8}, {0, 70, 140}, 0, 0});
    for (double& value : a.t.start(a.q)) value *= 0x1p50;
    for (double& value : a.t.start(a.k)) value *= 0x1p50;
    const auto forward = [&](Context& ctx, const Operands& o) { a.forward(ctx, o); };
    for (const double value :
         std::vector<double>(a.t.run(isa, Precision::kFp32, 1, forward)[a.out])) {
      EXPECT_TRUE(std::isfinite(value)) << name_of(isa);
    }
    // A NaN in one document does not reach the other, and shows in its own.
    a.t.start(a.v)[69 * 8] = NAN;
    const auto result = a.t.run(isa, Precision::kFp32, 1, forward)[a.out];
    for (size_t i = 70 * 16; i < 140 * 16; ++i) EXPECT_TRUE(std::isfinite(result[i]));
    EXPECT_TRUE(std::isnan(result[69 * 16])) << name_of(isa);
  }
}

}  // namespace
}  // namespace athanor::ops
