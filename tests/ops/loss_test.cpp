#include "ops/loss.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  int64_t tokens, width, vocabulary;
};

struct Case {
  Case(Precision precision, const Shape& s, double size)
      : t(precision, 91), shape(s), gradient_scale(1.0 / static_cast<double>(s.tokens)) {
    h = t.input(Kind::kAct, s.tokens, s.width);
    table = t.input(Kind::kAct, s.vocabulary, s.width, size);
    targets = t.input(Kind::kIndex, 1, s.tokens);
    for (double& target : t.start(targets)) {
      target = static_cast<double>(t.random().below(static_cast<uint64_t>(s.vocabulary) + 1)) - 1;
    }
    const auto width = static_cast<double>(s.width), tokens = static_cast<double>(s.tokens);
    // Logits of about size·√width, each a sum of `width` products; dlogits in the act dtype round once more.
    const double act = precision == Precision::kBf16 ? 0x1p-8 / 0x1p-24 : 1.0;
    // What a logit is off, the probability is off relatively: more terms for larger logits.
    const double logits = std::max(1.0, size);
    loss = t.written(Kind::kReal, 1, s.tokens,
                     {.terms = 16 + width / 2, .scale = 1 + 4 * size * std::sqrt(width)});
    dh = t.written(
        Kind::kReal, s.tokens, s.width,
        {.terms = (16 + width) * std::max(act, logits), .scale = 3 * size * gradient_scale});
    dtable = t.accumulated(
        s.vocabulary, s.width,
        {.terms = (16 + width + tokens) * std::max(act, logits), .scale = 3 * gradient_scale});
    for (double& value : t.start(dtable)) value = static_cast<float>(value * gradient_scale);
  }

  Op op(bool with_gradient) {
    return [this, with_gradient](Context& ctx, const Operands& o) {
      Arena packed("packed");
      const DType act = o(h).dtype();
      if (!ctx.planning()) {
        packed.reserve(2 * PackedMatrix::bytes(act, shape.vocabulary, shape.width) +
                       2 * PackedMatrix::bytes(act, shape.width, shape.vocabulary) + 256);
      }
      PackedMatrix forward = PackedMatrix::allocate(packed, act, shape.vocabulary, shape.width);
      PackedMatrix transposed = PackedMatrix::allocate(packed, act, shape.width, shape.vocabulary);
      pack(ctx, o(table), forward);
      pack_transposed(ctx, o(table), transposed);
      vocabulary_loss(ctx, o(h), {&forward, with_gradient ? &transposed : nullptr}, o(targets),
                      gradient_scale, o(loss), with_gradient ? o(dh) : Tensor(),
                      with_gradient ? o(dtable) : Tensor());
    };
  }

  Twins t;
  Shape shape;
  double gradient_scale;
  int h, table, targets, loss, dh, dtable;
};

TWIN_ROW(vocabulary_loss, On::kThisCpu, "vocabulary_loss") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Shape& s :
         {Shape{1, 1, 1}, {3, 17, 5}, {130, 16, 257}, {1100, 8, 67}, {9, 32, 2500}}) {
      for (const bool with_gradient : {false, true}) {
        Case c(precision, s, 1.0);
        c.t.compare(fmt::format("[{}, {}, {}]", s.tokens, s.width, s.vocabulary),
                    c.op(with_gradient));
      }
    }
  }
}

TWIN_ROW(vocabulary_loss_far_from_the_largest_logit, On::kThisCpu, "vocabulary_loss") {
  // Logits of about ±80: in f32 no exponential relative to the target's could hold them.
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Case c(precision, {130, 16, 700}, 20.0);
    c.t.compare("far targets", c.op(true));
  }
}

TEST(VocabularyLoss, LivesWithHugeLogits) {
  for (const Isa isa : instruction_sets()) {
    Case c(Precision::kFp32, {5, 4, 33}, 0x1p60);
    for (double& x : c.t.start(c.h)) x *= 0x1p60;
    const auto result = c.t.run(isa, Precision::kFp32, 1, c.op(true));
    for (const int output : {c.loss, c.dh, c.dtable}) {
      for (const double value : result[output]) EXPECT_TRUE(std::isfinite(value)) << name_of(isa);
    }
  }
}

TEST(VocabularyLoss, ShowsNaN) {
  for (const Isa isa : instruction_sets()) {
    Case c(Precision::kFp32, {5, 4, 33}, 1.0);
    c.t.start(c.h)[4] = NAN;
    c.t.start(c.targets).assign(5, 7);
    const auto result = c.t.run(isa, Precision::kFp32, 1, c.op(true));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(result[c.loss][i]), i == 1) << name_of(isa);
    EXPECT_TRUE(std::isnan(result[c.dtable][0])) << name_of(isa);
  }
}

TEST(VocabularyLoss, GradientIsTheDerivative) {
  Case c(Precision::kFp64, {5, 3, 7}, 1.0);
  c.t.start(c.targets) = {3, -1, 0, 6, 3};
  const auto run = [&] { return c.t.run(Isa::kReference, Precision::kFp64, 1, c.op(true)); };
  const auto loss = [&] {
    double sum = 0;
    const auto result = run();
    for (const double value : result[c.loss]) sum += value * c.gradient_scale;
    return sum;
  };
  expect_gradient(c.t.start(c.h), run()[c.dh], loss);
  std::vector<double> gradient = run()[c.dtable];
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= c.t.start(c.dtable)[i];
  expect_gradient(c.t.start(c.table), gradient, loss);
}

TEST(VocabularyLoss, RefusesTargetsOutsideTheVocabulary) {
  Case c(Precision::kFp32, {5, 4, 33}, 1.0);
  c.t.start(c.targets)[2] = 33;
  EXPECT_THROW(c.t.run(Isa::kReference, Precision::kFp32, 1, c.op(true)), Error);
}

}  // namespace
}  // namespace athanor::ops
