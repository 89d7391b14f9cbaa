// A step of decoding takes nothing from the heap.
#include <gtest/gtest.h>

#include "infer/generate.h"
#include "infer/tiny_model.h"
#include "support/allocations.h"

namespace athanor::infer {
namespace {

/// What was allocated when each token came.
struct Counts : GenerationSink {
  Counts() { counts.reserve(100); }
  bool token(size_t, int32_t) override {
    counts.push_back(test::allocations());
    return true;
  }
  void end(size_t, Ending) override {}
  std::vector<int64_t> counts;
};

TEST(Heap, NoDecodedTokenButTheFirstAllocates) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  const test::ScratchFolder folder;
  const ModelFiles files =
      open_model_files(test::write_model(folder / "model", test::text_config()));
  for (const int64_t texts : {1, 3}) {
    for (const ops::Precision precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
      for (const SamplingOptions& sampling :
           {SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 1.0},
            SamplingOptions{.temperature = 0.7, .top_k = 20, .top_p = 0.9}}) {
        Prompt prompt{{1, 2, 3, 4, 5, 6, 7}, {}};
        prompt.options.sampling = sampling;
        prompt.options.max_tokens = 12;
        prompt.options.chunk = 3;
        const std::vector<Prompt> prompts(static_cast<size_t>(texts), prompt);
        Session session(files, precision, 32, generation_work(prompts, texts));
        Counts sink;
        const int64_t before = test::allocations();
        generate(session, prompts, texts, sink);
        const auto& counts = sink.counts;
        ASSERT_EQ(counts.size(), static_cast<size_t>(12 * texts));
        EXPECT_GT(counts.front() - before, 0) << "is anything counted?";
        // Texts may begin in calls one after the other; from then on all are in hand.
        for (size_t i = static_cast<size_t>(texts * texts) + 1; i < counts.size(); ++i) {
          EXPECT_EQ(counts[i] - counts[i - 1], 0) << "token " << i << " in " << name_of(precision);
        }
      }
    }
  }
}

}  // namespace
}  // namespace athanor::infer
