// A training step takes nothing from the heap. This program counts its allocations; under a
// sanitizer, which brings its own allocator, there is nothing to count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "lab.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATHANOR_COUNTS_ALLOCATIONS 0
#else
#define ATHANOR_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> allocations{0};
}

#if ATHANOR_COUNTS_ALLOCATIONS
void* operator new(std::size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace athanor::model {
namespace {

struct QuietSink : GradientSink {
  void ready(const Parameter&) override {}
};

TEST(Heap, ASteadyStepAllocatesNothing) {
  if (!ATHANOR_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
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
      const int64_t before = allocations;
      lab.model->forward_backward(lab.ctx, lab.activations, batch, 1.0, sink, statistics);
      during = allocations - before;
      if (step == 0) {
        EXPECT_GT(during, 0) << "the first step sizes its bookkeeping: is anything counted?";
      }
    }
    EXPECT_EQ(during, 0);
  }
}

}  // namespace
}  // namespace athanor::model
