#include "ops/random.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "ops/twin_table.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TWIN_ROW(fill_normal, On::kThisCpu, "fill_normal") {
  // Weights are drawn with it: a bit that depends on the machine would be another model.
  for (const int64_t n : {1, 3, 7, 17, 4096, 4097, 70001}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<float> expected(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const auto block = static_cast<uint64_t>(i / kNormalBlock);
        RandomStream random(seed, stream_of("weight", block),
                            static_cast<uint64_t>(2 * (i % kNormalBlock)));
        expected[static_cast<size_t>(i)] = static_cast<float>(0.02 * random.normal());
      }
      Arena scratch("scratch");
      scratch.reserve(64);
      for (const Isa isa : instruction_sets()) {
        for (const int threads : {1, 3}) {
          std::vector<float> drawn(static_cast<size_t>(n) + 1, 77.0F);
          WatchedContext watched(threads, scratch, isa);
          fill_normal(watched.get(), Tensor::of(drawn.data(), {n}), 0.02, seed, "weight");
          EXPECT_EQ(drawn.back(), 77.0F);
          drawn.pop_back();
          ASSERT_EQ(0, std::memcmp(drawn.data(), expected.data(), sizeof(float) * drawn.size()))
              << name_of(isa) << " of " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace athanor::ops
