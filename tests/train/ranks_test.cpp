// Many ranks, the same bits: steps of worlds of every size, side by side in this process.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "support/memory_world.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

constexpr int64_t kSteps = 3;

/// What a run of a few steps comes to, state gathered from all ranks.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<int64_t> counts;
  std::vector<float> values;
  std::map<std::string, std::vector<float>> state;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const Config& config, int ranks, const comm::CommunicatorOptions& options) {
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(ranks, options, [&](comm::Communicator& world) {
    Bench bench(config, world);
    std::vector<StepResult> results;
    for (int64_t step = 0; step < kSteps; ++step) results.push_back(bench.step(step));
    const std::vector<float> values = bench.values();
    const std::lock_guard lock(mutex);
    for (const optim::StateTensor& tensor : bench.workspace->optimizer.state()) {
      std::vector<float>& whole = outcome.state[tensor.name];
      whole.resize(static_cast<size_t>(numel_of(tensor.shape)), -1.0F);
      std::copy_n(tensor.value.as<float>(), tensor.value.numel(),
                  whole.begin() + static_cast<std::ptrdiff_t>(tensor.begin));
    }
    if (world.rank() == 0) {
      for (const StepResult& result : results) {
        outcome.losses.push_back(result.loss);
        outcome.norms.push_back(result.gradient_norm);
      }
      outcome.counts = bench.runner->expert_counts();
      outcome.values = values;
    } else if (world.rank() == ranks - 1) {
      EXPECT_EQ(results.back().targets, Bench(config).step(kSteps - 1).targets);
    }
  });
  return outcome;
}

struct Case {
  int ranks;
  int node_ranks;
  size_t part_bytes;
  const char* optimizer;
  int64_t groups;
};

class Ranks : public ::testing::TestWithParam<Case> {};

Config config_of(const Case& c) {
  return config_with(c.groups, {std::string("optimizer.kind=") + c.optimizer, "batch.micro_batch=1",
                                "batch.sequences=8"});
}

TEST_P(Ranks, AgreeWithOneByBit) {
  const Case& c = GetParam();
  const Config config = config_of(c);
  const Outcome one = outcome_of(config, 1, {});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_NE(one.losses[2], one.losses[0]);
  const Outcome many =
      outcome_of(config, c.ranks, {.node_ranks = c.node_ranks, .part_bytes = c.part_bytes});
  EXPECT_EQ(many.losses, one.losses);
  EXPECT_EQ(many.norms, one.norms);
  EXPECT_EQ(many.counts, one.counts);
  EXPECT_EQ(many.values, one.values);
  EXPECT_EQ(many.state, one.state);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Ranks,
    ::testing::Values(Case{2, 1, 1 << 22, "muon", 8}, Case{4, 1, 4096, "muon", 8},
                      Case{8, 1, 1 << 14, "muon", 8}, Case{8, 2, 1 << 14, "muon", 8},
                      Case{8, 4, 4096, "muon", 8}, Case{2, 2, 1 << 14, "muon", 2},
                      Case{4, 4, 1 << 22, "adamw", 4}, Case{8, 1, 4096, "adamw", 8}),
    [](const auto& world) {
      const Case& c = world.param;
      return std::string(c.optimizer) + "_" + std::to_string(c.ranks) + "ranks_nodesOf" +
             std::to_string(c.node_ranks) + "_parts" + std::to_string(c.part_bytes) + "_groups" +
             std::to_string(c.groups);
    });

TEST(OtherNumbersOfRanks, AgreeUpToRounding) {
  for (const int ranks : {3, 5}) {
    const Config config = config_with(8, {"batch.micro_batch=1"});
    const Outcome one = outcome_of(config, 1, {});
    const Outcome many = outcome_of(config, ranks, {});
    EXPECT_EQ(many.counts, one.counts);
    for (size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step], one.losses[step], 1e-5);
      EXPECT_NEAR(many.norms[step], one.norms[step], 1e-4 * one.norms[step]);
    }
  }
}

TEST(Ranks, FindTheirValuesAgainWhereGradientsTookTheirPlace) {
  test::run_ranks(4, {}, [](comm::Communicator& world) {
    Bench bench(config_with(4, {"batch.micro_batch=1"}), world);
    bench.step(0);
    const std::vector<float> before = bench.values();
    const StepPlan plan = RunPlan(bench.config).at(1);
    bench.fetch(plan);
    bench.runner->run_gradients(*bench.ctx, plan);  // a step that is then skipped
    EXPECT_EQ(bench.values(), before);
  });
}

TEST(Ranks, HoldTheirPartOfTheMatricesAlone) {
  const Config config = config_with(8, {"batch.micro_batch=1"});
  const auto bytes = [&](int ranks, const char* name) {
    uint64_t found = 0;
    for (const ArenaPlan& arena : plan_memory(config, Threads(1), {0, ranks}).arenas) {
      if (arena.name == name) found = arena.bytes;
    }
    return found;
  };
  Arena values("values");
  const model::Parameters parameters(model_config(config), precision_of(config), values);
  const auto matrices =
      static_cast<uint64_t>(parameters.numel() - parameters.matrices_begin()) * sizeof(float);
  EXPECT_LT(bytes(8, "parameters"), bytes(1, "parameters") - matrices * 3 / 4);
  EXPECT_LT(bytes(8, "optimizer state"), bytes(1, "optimizer state") / 4);
}

TEST(BatchShare, OfFewerSequencesThanRanksIsRefused) {
  const Config config = config_with(8, {"batch.micro_batch=1"});
  EXPECT_THROW(batch_share(config, 2, {0, 3}), Error);
  int64_t next = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const BatchShare share = batch_share(config, 8, {rank, 3});
    EXPECT_EQ(share.first, next);
    EXPECT_EQ(share.groups, 1);
    next += share.count;
  }
  EXPECT_EQ(next, 8);
}

}  // namespace
}  // namespace athanor::train
