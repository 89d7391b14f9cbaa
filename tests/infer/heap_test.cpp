// A step of decoding takes nothing from the heap.
#include <gtest/gtest.h>

#include "infer/generate.h"
#include "infer/tiny_model.h"
#include "support/allocations.h"

namespace athanor::infer {
namespace {

TEST(Heap, NoDecodedTokenButTheFirstAllocates) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  const test::ScratchFolder folder;
  const ModelFiles files =
      open_model_files(test::write_model(folder / "model", test::text_config()));
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5, 6, 7};
  for (const ops::Precision precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    for (const SamplingOptions& sampling :
         {SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 1.0},
          SamplingOptions{.temperature = 0.7, .top_k = 20, .top_p = 0.9}}) {
      GenerationOptions options;
      options.sampling = sampling;
      options.max_tokens = 12;
      options.chunk = 3;
      Session session(files, precision, 32, generation_work(7, options));
      std::vector<int64_t> counts;
      counts.reserve(12);
      const std::function<void(int32_t)> sink = [&](int32_t) {
        counts.push_back(test::allocations());
      };
      const int64_t before = test::allocations();
      ASSERT_EQ(generate(session, prompt, options, sink).size(), 12U);
      EXPECT_GT(counts.front() - before, 0) << "is anything counted?";
      for (size_t i = 2; i < counts.size(); ++i) {
        EXPECT_EQ(counts[i] - counts[i - 1], 0) << "token " << i << " in " << name_of(precision);
      }
    }
  }
}

}  // namespace
}  // namespace athanor::infer
