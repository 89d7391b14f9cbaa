// The configs of configs/: each is read as it stands, and has the geometry and the recipe that its first lines promise.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/files.h"
#include "train/config.h"
#include "train/phases.h"

namespace athanor::train {
namespace {

/// configs/NAME with what stands at auto filled in.
Config published(const std::string& name) {
  Config config = read_config(fs::path(ATHANOR_SOURCE_DIR) / "configs" / name, {});
  if (config.model.vocab == kAuto) config.model.vocab = 259;  // bytes and three specials
  resolve_automatic(config);
  return config;
}

model::ParameterCounts counts_of(const Config& config) {
  return model::count_parameters(model_config(config));
}

TEST(PublishedConfigs, EveryFileIsOneOfTheseAndHasAPlan) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(ATHANOR_SOURCE_DIR) / "configs")) {
    const std::string name = entry.path().filename().string();
    names.insert(name);
    EXPECT_GE(RunPlan(published(name)).steps(), 100) << name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"demo.toml", "small.toml", "tiny.toml", "wide.toml",
                                          "zaya1-74b.toml", "zaya1-8b.toml"}));
}

TEST(PublishedConfigs, TheSmallOnesHaveTheirGeometry) {
  EXPECT_NEAR(counts_of(published("demo.toml")).total, 13.2e6, 0.05e6);
  EXPECT_NEAR(counts_of(published("demo.toml")).active_with_head, 4.9e6, 0.05e6);
  EXPECT_NEAR(counts_of(published("small.toml")).total, 115.8e6, 0.05e6);
  EXPECT_NEAR(counts_of(published("small.toml")).active_with_head, 21.5e6, 0.05e6);
  EXPECT_NEAR(counts_of(published("wide.toml")).total, 897e6, 0.5e6);
  EXPECT_NEAR(counts_of(published("wide.toml")).active_with_head, 142.5e6, 0.05e6);
}

TEST(PublishedConfigs, TinyRunsOneSequenceAtATimeInBatchesOfEights) {
  const Config tiny = published("tiny.toml");
  EXPECT_EQ(tiny.tokenizer.kind, TokenizerKind::kBytes);
  EXPECT_EQ(tiny.batch.micro_batch, 1);
  EXPECT_EQ(tiny.batch.sequences % 8, 0);
  EXPECT_LT(tiny.phases[0].sequence, 25'000 / 2);  // a file of 25 kB holds many samples
}

TEST(PublishedConfigs, TheReleasedModelsToTheParameter) {
  const model::ParameterCounts small = counts_of(published("zaya1-8b.toml"));
  EXPECT_EQ(small.total, 8'840'488'784);
  EXPECT_EQ(small.active_non_embedding, 753'608'528);
  const model::ParameterCounts large = counts_of(published("zaya1-74b.toml"));
  EXPECT_EQ(large.total, 74'793'953'144);
  EXPECT_EQ(large.active_non_embedding, 4'262'012'792);

  const model::ModelConfig sliding = model_config(published("zaya1-74b.toml"));
  EXPECT_EQ(sliding.sliding_window, 4097);
  EXPECT_EQ(sliding.layer_kinds[0], model::LayerKind::kSliding);
  EXPECT_EQ(sliding.layer_kinds[1], model::LayerKind::kFull);
  EXPECT_EQ(sliding.max_positions, 262'144);
  EXPECT_EQ(model_config(published("zaya1-8b.toml")).max_positions, 131'072);
}

TEST(PublishedConfigs, TheThreePhasesOfTheReport) {
  for (const char* name : {"zaya1-8b.toml", "zaya1-74b.toml"}) {
    const Config config = published(name);
    ASSERT_EQ(config.phases.size(), 3U);
    const double tokens[] = {8e12, 4e12, 1.2e12};
    const int64_t sequence[] = {4096, 4096, 32'768};
    const double theta[] = {1e4, 1e4, 1e6};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(static_cast<double>(config.phases[i].tokens), tokens[i]);
      EXPECT_EQ(config.phases[i].sequence, sequence[i]);
      EXPECT_EQ(config.phases[i].theta, theta[i]);
    }
    EXPECT_EQ(config.phases[0].learning_rate, 6e-4);
    EXPECT_EQ(config.phases[0].final_learning_rate, 2e-4);
    EXPECT_EQ(config.phases[0].schedule, optim::ScheduleKind::kCosine);
    // 4,096 sequences of 4,096 tokens once the ramp is over, and as many tokens in the midtrain's longer ones.
    const RunPlan plan(config);
    EXPECT_EQ(plan.at(plan.phase_steps(0) - 1).tokens(), int64_t{4096} * 4096);
    EXPECT_EQ(plan.at(plan.steps() - 1).tokens(), int64_t{4096} * 4096);
    EXPECT_EQ(plan.at(plan.steps() - 1).phase, 2);
  }
}

}  // namespace
}  // namespace athanor::train
