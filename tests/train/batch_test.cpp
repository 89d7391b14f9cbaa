#include <gtest/gtest.h>

#include <numeric>

#include "train/bench.h"
#include "train/global_batch.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

/// What the loader gives for one sample, and what attention may see in it.
struct Sample {
  std::vector<int32_t> ids, targets, begins;
};

Sample sample_of(const data::Loader& loader, uint64_t index) {
  const auto length = static_cast<size_t>(loader.sequence_length(0));
  Sample sample{std::vector<int32_t>(length), std::vector<int32_t>(length), {}};
  loader.fetch(0, index, sample.ids, sample.targets, sample.begins);
  return sample;
}

std::vector<int32_t> values_of(const Tensor& t) {
  return {t.as<int32_t>(), t.as<int32_t>() + t.numel()};
}

TEST(GlobalBatch, MicroBatchesHoldTheLoadersSamplesAndTheirDocuments) {
  const Bench bench(config_with(1));
  const StepPlan plan = RunPlan(bench.config).at(2);
  GlobalBatch& batch = bench.workspace->batch;
  constexpr uint64_t kOffset = 5;  // as after a roll-back
  constexpr int64_t kFirst = 2;    // as on another rank
  batch.fetch(bench.loader, plan, kOffset, kFirst, 6);
  int64_t targets = 0, keys = 0;
  size_t documents = 0;
  for (int64_t first = 0; first < 6; first += 2) {
    const model::Batch& micro = batch.micro_batch(first, 2);
    std::vector<int32_t> ids, wanted;
    std::vector<int64_t> begins;
    for (int64_t i = 0; i < 2; ++i) {
      const Sample sample =
          sample_of(bench.loader, plan.first_sample + kOffset + kFirst + first + i);
      ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
      wanted.insert(wanted.end(), sample.targets.begin(), sample.targets.end());
      for (const int32_t begin : sample.begins) begins.push_back(i * plan.sequence + begin);
      documents += sample.begins.size();
    }
    begins.push_back(2 * plan.sequence);
    EXPECT_EQ(values_of(micro.ids), ids) << first;
    EXPECT_EQ(values_of(micro.targets), wanted) << first;
    EXPECT_EQ(std::vector<int64_t>(micro.begins.begin(), micro.begins.end()), begins) << first;
    targets += std::count_if(wanted.begin(), wanted.end(), [](int32_t t) { return t >= 0; });
    for (size_t s = 1; s < begins.size(); ++s) {
      for (int64_t t = begins[s - 1]; t < begins[s]; ++t) keys += t - begins[s - 1] + 1;
    }
  }
  EXPECT_GT(documents, 8u) << "samples of one document alone would show no boundary";
  EXPECT_EQ(batch.targets(), targets);
  EXPECT_DOUBLE_EQ(batch.mean_keys(), static_cast<double>(keys) / (6.0 * 32.0));
}

}  // namespace
}  // namespace athanor::train
