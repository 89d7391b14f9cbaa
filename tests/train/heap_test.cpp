// A training step takes nothing from the heap: fetching its tokens, refreshing packed weights, forward and
// backward, reduction, clipping, both optimizers and the balancing controller.
#include <gtest/gtest.h>

#include "support/allocations.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

void expect_steady(const std::vector<std::string>& overrides, int threads) {
  const Config config = config_with(4, overrides);
  Bench bench(config, threads);
  std::vector<StepPlan> plans;
  constexpr int64_t kSteps = 5;
  for (int64_t step = 0; step < kSteps; ++step) plans.push_back(RunPlan(config).at(step));
  for (int64_t step = 0; step < kSteps; ++step) {
    const StepPlan& plan = plans[static_cast<size_t>(step)];
    const int64_t before = test::allocations();
    bench.fetch(plan);
    const int64_t fetched = test::allocations();
    ASSERT_TRUE(bench.runner->run(*bench.ctx, plan, step).applied);
    const int64_t after = test::allocations();
    if (step == 0) {
      EXPECT_GT(after - before, 0) << "the first step sizes its bookkeeping: is anything counted?";
    } else {
      EXPECT_EQ(fetched - before, 0) << "step " << step << " fetches";
      EXPECT_EQ(after - fetched, 0) << "step " << step << " runs";
    }
  }
}

TEST(Heap, NoStepButTheFirstAllocates) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* optimizer : {"muon", "adamw"}) {
      for (const char* recompute : {"none", "all"}) {
        SCOPED_TRACE(std::string(precision) + " " + optimizer + " recompute " + recompute);
        expect_steady(
            {std::string("precision=") + precision, std::string("optimizer.kind=") + optimizer,
             std::string("model.recompute=") + recompute},
            2);
      }
    }
  }
}

}  // namespace
}  // namespace athanor::train
