#include "ops/update.h"

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TWIN_ROW(update, On::kThisCpu, "adamw", "muon_momentum", "muon_apply") {
  for (const int64_t n : {1, 17, 33000}) {
    for (const int64_t step : {1, 7, 100000}) {
      Twins t(Precision::kFp32, 71);
      const int g = t.input(Kind::kReal, 1, n);
      const int p = t.accumulated(1, n, {.terms = 4});
      const int m = t.accumulated(1, n, {.terms = 4});
      const int v = t.accumulated(1, n, {.terms = 8});
      for (double& value : t.start(v)) value = std::abs(value);
      const int momentum = t.accumulated(1, n, {.terms = 4});
      const int nesterov = t.written(Kind::kReal, 1, n, {.terms = 4});
      const int applied = t.accumulated(1, n, {.terms = 4});
      t.compare(std::to_string(n), [&](Context& ctx, const Operands& o) {
        adamw(ctx, o(p), o(g), o(m), o(v),
              {.learning_rate = 1e-2, .weight_decay = 0.1, .step = step, .gradient_scale = 0.5});
        muon_momentum(ctx, o(g), 0.95, 0.5, o(momentum), o(nesterov));
        muon_apply(ctx, o(applied), o(g), 0.99, 0.02);
      });
    }
  }
}

TEST(AdamW, TakesTheFirstStepOfTheFormula) {
  // By hand: g = 2·0.5 = 1, m = 0.1, v = 0.05, m/(1−0.9) = 1, √(v/(1−0.95)) = 1.
  double p = 2.0, g = 2.0, m = 0.0, v = 0.0;
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch, Isa::kReference);
  const auto one = [](double& x) { return Tensor::of(&x, {1}); };
  adamw(ctx, one(p), one(g), one(m), one(v),
        {.learning_rate = 0.1, .epsilon = 0.25, .weight_decay = 0.5, .gradient_scale = 0.5});
  EXPECT_NEAR(m, 0.1, 1e-15);
  EXPECT_NEAR(v, 0.05, 1e-15);
  EXPECT_NEAR(p, 2.0 * 0.95 - 0.1 * 1.0 / 1.25, 1e-12);
}

TEST(Muon, KeepsTheAverageFormOfTheMomentum) {
  double g = 3.0, momentum = 1.0, nesterov = 0.0, p = 2.0;
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch, Isa::kReference);
  const auto one = [](double& x) { return Tensor::of(&x, {1}); };
  muon_momentum(ctx, one(g), 0.9, 2.0, one(momentum), one(nesterov));
  EXPECT_NEAR(momentum, 0.9 + 0.1 * 6.0, 1e-14);
  EXPECT_NEAR(nesterov, 0.1 * 6.0 + 0.9 * 1.5, 1e-14);
  muon_apply(ctx, one(p), one(g), 0.5, 0.25);
  EXPECT_NEAR(p, 1.0 - 0.75, 1e-15);
}

}  // namespace
}  // namespace athanor::ops
