// A model's forward and backward pass takes nothing from the heap.
#include <gtest/gtest.h>

#include "lab.h"
#include "support/allocations.h"

namespace athanor::model {
namespace {

struct QuietSink : GradientSink {
  void ready(const Parameter&) override {}
};

TEST(Heap, ASteadyPassAllocatesNothing) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  const std::vector<int64_t> begins = {0, 3, 4, 20};
  for (const auto precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    ModelConfig config = small_config();
    config.hidden = 32;
    config.heads = {4, 2, 16};
    config.partial_rotary = 0.5;
    Lab lab(config, precision, 1, {true, false}, 2);
    const Batch batch{lab.ints(random_ids(20, 11, 2)), lab.ints(random_ids(20, 11, 3)), begins};
    QuietSink sink;
    Statistics statistics;
    int64_t during = 0;
    for (int step = 0; step < 3; ++step) {
      lab.parameters->touch();  // as an optimizer does
      const int64_t before = test::allocations();
      lab.model->forward_backward(lab.ctx, lab.activations, batch, 1.0, sink, statistics);
      during = test::allocations() - before;
      if (step == 0) {
        EXPECT_GT(during, 0) << "the first step sizes its bookkeeping: is anything counted?";
      }
    }
    EXPECT_EQ(during, 0);
  }
}

}  // namespace
}  // namespace athanor::model
