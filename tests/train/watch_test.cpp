// What a run watches and writes: expert load, the divergence guard, TensorBoard files, time budgets.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "train/budget.h"
#include "train/divergence.h"
#include "train/lab.h"
#include "train/metrics.h"
#include "train/phases.h"
#include "train/tensorboard.h"

namespace athanor::train {
namespace {

TEST(ExpertLoad, EvenLoadIsEntropyOne) {
  const ExpertLoad load = expert_load(std::vector<int64_t>{5, 5, 5, 5, 0});
  EXPECT_DOUBLE_EQ(load.entropy, 1);
  EXPECT_DOUBLE_EQ(load.max_over_mean, 1);
  EXPECT_EQ(load.dead, 0);
  EXPECT_EQ(load.skip_share, 0);
}

TEST(ExpertLoad, CountsTheDeadAndTheSkipped) {
  const ExpertLoad load = expert_load(std::vector<int64_t>{6, 2, 0, 0, 8});
  EXPECT_NEAR(load.entropy, -(0.75 * std::log(0.75) + 0.25 * std::log(0.25)) / std::log(4.0),
              1e-12);
  EXPECT_DOUBLE_EQ(load.max_over_mean, 3);
  EXPECT_EQ(load.dead, 2);
  EXPECT_DOUBLE_EQ(load.skip_share, 0.5);
  EXPECT_DOUBLE_EQ(expert_load(std::vector<int64_t>{0, 9}).skip_share, 1);
  EXPECT_DOUBLE_EQ(expert_load(std::vector<int64_t>{9, 0}).entropy, 1) << "a single expert";
}

TEST(StepMetrics, AnInfiniteLossIsNullInTheLine) {
  StepMetrics metrics;
  metrics.result.loss = std::numeric_limits<double>::quiet_NaN();
  const auto line = nlohmann::json::parse(to_json_line(metrics));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_FALSE(line.contains("validation"));
}

TEST(StepMetrics, ScalarsSayWhatTheLineSays) {
  StepMetrics metrics;
  metrics.plan.step = 6;
  metrics.plan.sequences = 4;
  metrics.plan.sequence = 8;
  metrics.plan.tokens_before = 100;
  metrics.plan.learning_rate = 0.25;
  metrics.plan.adamw_learning_rate = 0.125;
  metrics.result.loss = 3.5;
  metrics.result.gradient_norm = 1.25;
  metrics.skipped_steps = 2;
  metrics.epochs = 1.75;
  metrics.seconds = 0.5;
  metrics.data_wait_seconds = 0.0625;
  metrics.tokens_per_second = 64;
  metrics.ceiling_share = 0.375;
  metrics.memory_bytes = 4096;
  metrics.experts = {{0.9, 1.5, 1, 0.2}, {0.8, 2.5, 3, 0.4}};
  metrics.validation = ValidationResult{2.5, 1.125, 70, 90};
  const auto line = nlohmann::json::parse(to_json_line(metrics));
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["tokens"], 132);
  std::map<std::string, double> scalars;
  for (const Scalar& scalar : to_scalars(metrics)) {
    EXPECT_TRUE(scalars.emplace(scalar.tag, scalar.value).second) << scalar.tag;
  }
  const std::map<std::string, nlohmann::json> expected = {
      {"train/loss", line["loss"]},
      {"train/grad_norm", line["grad_norm"]},
      {"train/tokens", line["tokens"]},
      {"train/skipped_steps", line["skipped_steps"]},
      {"train/epochs", line["epochs"]},
      {"learning_rate/muon", line["learning_rate"]},
      {"learning_rate/adamw", line["adamw_learning_rate"]},
      {"speed/tokens_per_second", line["tokens_per_second"]},
      {"speed/ceiling_share", line["ceiling_share"]},
      {"speed/data_wait_seconds", line["data_wait_seconds"]},
      {"speed/memory_bytes", line["memory_bytes"]},
      {"experts/layer_0_entropy", 0.9},
      {"experts/layer_0_max_over_mean", 1.5},
      {"experts/layer_0_dead", 1},
      {"experts/layer_0_skip_share", 0.2},
      {"experts/layer_1_entropy", line["experts"][1]["entropy"]},
      {"experts/layer_1_max_over_mean", line["experts"][1]["max_over_mean"]},
      {"experts/layer_1_dead", line["experts"][1]["dead"]},
      {"experts/layer_1_skip_share", line["experts"][1]["skip_share"]},
      {"validation/loss", line["validation"]["loss"]},
      {"validation/bits_per_byte", line["validation"]["bits_per_byte"]}};
  EXPECT_EQ(scalars.size(), expected.size());
  for (const auto& [tag, value] : expected) {
    ASSERT_TRUE(scalars.contains(tag)) << tag;
    EXPECT_EQ(scalars[tag], value.get<double>()) << tag;
  }
  EXPECT_EQ(line["loss"], 3.5);
  EXPECT_EQ(line["adamw_learning_rate"], 0.125);
  EXPECT_EQ(line["skipped_steps"], 2);
  EXPECT_EQ(line["validation"]["tokens"], 70);
  EXPECT_EQ(line["validation"]["bytes"], 90);
}

class Guard : public ::testing::Test {
 protected:
  /// `steps` good steps around `loss`.
  void settle(double loss, int steps = 60) {
    for (int i = 0; i < steps; ++i) {
      ASSERT_EQ(guard.observe(0, loss + (i % 2 == 0 ? 0.01 : -0.01), true), "");
    }
  }
  static FaultsSection faults() {
    FaultsSection faults;
    faults.skip_limit = 3;
    faults.spike_sigma = 6;
    faults.spike_steps = 4;
    return faults;
  }
  DivergenceGuard guard{faults()};
};

TEST_F(Guard, SkippedStepsInARowAreADivergence) {
  settle(2);
  EXPECT_EQ(guard.observe(0, NAN, false), "");
  EXPECT_EQ(guard.observe(0, NAN, false), "");
  EXPECT_EQ(guard.observe(0, 2, true), "") << "a good step between starts the count anew";
  EXPECT_FALSE(guard.suspicious());
  EXPECT_EQ(guard.observe(0, NAN, false), "");
  EXPECT_EQ(guard.observe(0, NAN, false), "");
  EXPECT_TRUE(guard.suspicious());
  EXPECT_NE(guard.observe(0, NAN, false), "");
  EXPECT_EQ(guard.state().skipped, 5);
}

TEST_F(Guard, SpikesInARowAreADivergenceAndNeverRaiseTheMean) {
  settle(2);
  const double mean = guard.state().mean;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guard.observe(0, 4, true), "");
  EXPECT_EQ(guard.state().mean, mean);
  EXPECT_NE(guard.observe(0, 4, true), "");
}

TEST_F(Guard, NoiseAndAFallingLossAreNone) {
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(guard.observe(0, 5 * std::exp(-i / 100.0) + 0.02 * (i % 7), true), "") << i;
  }
}

TEST_F(Guard, ANewPhaseMayBeHarder) {
  settle(2);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(guard.observe(1, 4, true), "");
}

TEST_F(Guard, SkippedStepsCountAcrossPhases) {
  settle(2);
  guard.observe(0, NAN, false);
  guard.observe(0, NAN, false);
  EXPECT_NE(guard.observe(1, NAN, false), "") << "the third in a row, whatever the phase";
  EXPECT_EQ(guard.state().skipped, 3);
}

TEST_F(Guard, TheFirstLossesOfAPhaseAreNoSpikes) {
  settle(2, 20);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(guard.observe(0, 4, true), "") << i;
}

TEST_F(Guard, NoiseOfLongAgoHidesNoSpike) {
  for (int i = 0; i < 60; ++i) guard.observe(0, i % 2 == 0 ? 1 : 3, true);
  settle(2, 1000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guard.observe(0, 3, true), "");
  EXPECT_NE(guard.observe(0, 3, true), "");
}

TEST(GuardOff, SigmaZeroWatchesForNoSpikes) {
  FaultsSection faults;
  faults.spike_sigma = 0;
  faults.spike_steps = 2;
  DivergenceGuard guard(faults);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(guard.observe(0, 2 + 0.01 * (i % 2), true), "");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guard.observe(0, 9, true), "");
}

TEST_F(Guard, ARestoredGuardDecidesAlike) {
  settle(2);
  guard.observe(0, 4, true);
  DivergenceGuard other(faults());
  other.restore(guard.state());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guard.observe(0, 4, true), other.observe(0, 4, true));
  EXPECT_EQ(other.state().spikes, 4);
}

/// Reads a TFRecord file back: checks both checksums of each record and returns the payloads.
std::vector<std::string> records_of(const std::string& file) {
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, file.data() + at, bytes);
    return value;
  };
  const auto masked = [](std::string_view data) {
    const uint32_t crc = crc32c(data);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  };
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const uint64_t length = number(at, 8);
    EXPECT_EQ(number(at + 8, 4), masked(std::string_view(file).substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(number(at + 12 + length, 4), masked(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(TensorBoard, Crc32cIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // the check value of the polynomial
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, RecordsAreAsTheReaderExpectsThem) {
  const testing::TemporaryFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.write(300, std::vector<Scalar>{{"train/loss", 1.5}});
  const std::vector<std::string> records = records_of(testing::read(writer.path()));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2")
      << "after the time: field 3, 13 bytes";
  // Field 1 (double, the time), field 2 (varint 300), field 5 (summary: field 1 value {tag, simple_value}).
  const std::string expected = std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0a") + "train/loss" +
                               std::string("\x15\x00\x00\xc0\x3f", 5);
  EXPECT_EQ(records[1].substr(9), expected);
  EXPECT_EQ(records[1][0], '\x09');
}

TEST(Budget, TokensFillWhatMeasuringLeft) {
  Config config =
      parse_config(testing::small_config(), "run.toml", {"run.time_budget_seconds=100"});
  MeasuredPace pace;
  pace.spent_seconds = 10;
  pace.seconds_per_token = 1e-4;
  pace.seconds_per_validation = 0.01;
  fit_to_budget(config, pace);
  EXPECT_TRUE(config.run.tokens_fitted);
  const RunPlan plan(config);
  const double training = static_cast<double>(plan.tokens()) * 1e-4;
  const double validations = 0.01 * std::floor(static_cast<double>(plan.steps()) / 5 + 1);
  EXPECT_LT(training + validations, 90);
  EXPECT_GT(training + validations, 80);
}

TEST(Budget, EveryCheckpointAndAMarginAreReckonedIn) {
  Config config = parse_config(
      testing::small_config(), "run.toml",
      {"run.time_budget_seconds=30", "checkpoint.interval_steps=4", "validation.interval_steps=0"});
  MeasuredPace pace;
  pace.seconds_per_token = 1e-3;
  pace.seconds_per_checkpoint = 1.2;
  fit_to_budget(config, pace);
  const auto seconds_of = [](int64_t steps) {
    const int64_t checkpoints = steps / 4 + 1;
    return 0.256 * static_cast<double>(steps) + 1.2 * static_cast<double>(checkpoints);
  };
  const int64_t steps = RunPlan(config).steps();
  EXPECT_LE(seconds_of(steps), 30 * 0.94) << steps;
  EXPECT_GT(seconds_of(steps + 1), 30 * 0.94) << steps;
}

TEST(Budget, PhasesKeepTheirProportionsAndAtLeastOneStep) {
  Config config = parse_config(testing::small_config(), "run.toml", {"run.time_budget_seconds=50"});
  config.phases.push_back(config.phases[0]);
  config.phases[1].tokens = config.phases[0].tokens * 3;
  config.phases.push_back(config.phases[0]);
  config.phases[2].tokens = 1;
  MeasuredPace pace;
  pace.seconds_per_token = 1e-5;
  fit_to_budget(config, pace);
  EXPECT_NEAR(
      static_cast<double>(config.phases[1].tokens) / static_cast<double>(config.phases[0].tokens),
      3, 1e-3);
  EXPECT_EQ(RunPlan(config).phase_steps(2) >= 1, true);
}

optim::Schedule wsd(int64_t steps) {
  return {optim::ScheduleKind::kWsd, 1, 0, 10, steps, 0.4};  // 60 of 100 steps are flat
}

TEST(Budget, APlanThatFitsStays) {
  EXPECT_EQ(refitted_steps(wsd(100), 30, 70), 100);
  EXPECT_EQ(refitted_steps(wsd(100), 30, 200), 100) << "put off at the end of the flat part alone";
  EXPECT_EQ(refitted_steps(wsd(100), 30, 50), 100) << "time may yet be won back";
  EXPECT_EQ(refitted_steps(wsd(100), 5, 1), 100) << "never in the warm-up";
}

TEST(Budget, ASlowMachineBringsTheDecayForward) {
  // After 30 flat steps the shortest run that keeps a decay of 40 % has 50 steps: 20 more.
  EXPECT_EQ(refitted_steps(wsd(100), 30, 20.5), 50);
  EXPECT_EQ(refitted_steps(wsd(100), 30, 3), 50);
}

TEST(Budget, AFastMachinePutsTheDecayOff) {
  EXPECT_EQ(refitted_steps(wsd(100), 60, 60), 120);
  EXPECT_EQ(refitted_steps(wsd(100), 60, 40), 100);
}

TEST(Budget, NothingChangesOnceTheRateFallsOrWithACosine) {
  EXPECT_EQ(refitted_steps(wsd(100), 61, 500), 100);
  EXPECT_EQ(refitted_steps(wsd(100), 61, 1), 100);
  EXPECT_EQ(refitted_steps({optim::ScheduleKind::kCosine, 1, 0, 10, 100, 0}, 50, 500), 100);
}

TEST(Budget, ARefittedScheduleKeepsEveryRateThatWasUsed) {
  for (int64_t next = 10; next <= 60; ++next) {
    for (const double possible : {0.0, 10.0, 25.0, 40.0, 80.0, 300.0}) {
      const int64_t steps = refitted_steps(wsd(100), next, possible);
      for (int64_t s = 0; s < next; ++s) {
        ASSERT_EQ(optim::learning_rate(wsd(100), s), optim::learning_rate(wsd(steps), s))
            << next << " done, " << possible << " possible, step " << s << " of " << steps;
      }
    }
  }
}

}  // namespace
}  // namespace athanor::train
