#include "train/phases.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

Config two_phases() {
  Config config = parse_config(testing::small_config(), "run.toml", {});
  config.phases[0].tokens = 2000;  // 8 steps of 256 tokens: the last one is whole
  Phase second = config.phases[0];
  second.name = "second";
  second.tokens = 1024;
  second.sequence = 64;
  second.theta = 1e6;
  second.learning_rate = 0.5;
  second.schedule = optim::ScheduleKind::kConstant;
  second.warmup_steps = 0;
  config.phases.push_back(second);
  return config;
}

TEST(RunPlan, PhasesFollowEachOtherInWholeSteps) {
  const RunPlan plan(two_phases());
  EXPECT_EQ(plan.phase_steps(0), 8);
  EXPECT_EQ(plan.phase_steps(1), 2);
  EXPECT_EQ(plan.steps(), 10);
  EXPECT_EQ(plan.tokens(), 8 * 256 + 2 * 512);
  const StepPlan last_of_first = plan.at(7);
  EXPECT_EQ(last_of_first.phase, 0);
  EXPECT_EQ(last_of_first.first_sample, 56u);
  EXPECT_EQ(last_of_first.tokens_before, 7 * 256);
  const StepPlan first_of_second = plan.at(8);
  EXPECT_EQ(first_of_second.phase, 1);
  EXPECT_EQ(first_of_second.step_in_phase, 0);
  EXPECT_EQ(first_of_second.first_sample, 0u) << "samples count from 0 in each phase";
  EXPECT_EQ(first_of_second.sequence, 64);
  EXPECT_EQ(first_of_second.theta, 1e6);
  EXPECT_EQ(first_of_second.learning_rate, 0.5);
  EXPECT_EQ(first_of_second.tokens_before, 2048);
  EXPECT_THROW(plan.at(10), Error);
}

TEST(RunPlan, LearningRatesGoByThePhasesOwnSteps) {
  Config config = two_phases();
  config.optimizer.adamw_learning_rate_scale = 0.25;
  const RunPlan plan(config);
  for (int64_t step = 0; step < 8; ++step) {
    const double expected =
        optim::learning_rate({optim::ScheduleKind::kCosine, 1e-2, 1e-3, 2, 8, 0.2}, step);
    EXPECT_EQ(plan.at(step).learning_rate, expected);
    EXPECT_EQ(plan.at(step).adamw_learning_rate, expected * 0.25);
  }
  // The second phase warms up and falls on its own, whatever came before.
  config.phases[1].tokens = 2048;
  config.phases[1].schedule = optim::ScheduleKind::kCosine;
  config.phases[1].warmup_steps = 2;
  config.phases[1].final_learning_rate = 0.1;
  const RunPlan cosines(config);
  ASSERT_EQ(cosines.phase_steps(1), 4);
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(cosines.at(8 + step).learning_rate,
              optim::learning_rate({optim::ScheduleKind::kCosine, 0.5, 0.1, 2, 4, 0.2}, step));
  }
}

TEST(RunPlan, TheRampStepsUpInsideAPhaseByTheRunsTokens) {
  Config config = two_phases();
  config.batch.ramp = {{0, 2}, {128, 4}, {1000, 8}};
  const RunPlan plan(config);
  // Steps of 64 tokens until 128 are trained, of 128 until 1000 are passed, then of 256.
  std::vector<int64_t> sequences;
  int64_t tokens = 0;
  uint64_t samples = 0;
  for (int64_t step = 0; step < plan.phase_steps(0); ++step) {
    const StepPlan at = plan.at(step);
    sequences.push_back(at.sequences);
    EXPECT_EQ(at.tokens_before, tokens) << step;
    EXPECT_EQ(at.first_sample, samples) << step;
    EXPECT_EQ(at.step_in_phase, step);
    tokens += at.tokens();
    samples += static_cast<uint64_t>(at.sequences);
  }
  EXPECT_EQ(sequences, (std::vector<int64_t>{2, 2, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8}));
  EXPECT_GE(tokens, 2000);
  EXPECT_EQ(plan.at(plan.phase_steps(0)).sequences, 8)
      << "the next phase goes on with the last size";
}

TEST(RunPlan, TrillionsOfTokensArePlannedAtOnce) {
  Config config = two_phases();
  config.phases[0].tokens = 8'000'000'000'000;
  config.phases[0].sequence = 4096;
  config.batch.sequences = 4096;
  const RunPlan plan(config);
  EXPECT_EQ(plan.phase_steps(0), 476'838);
  EXPECT_EQ(plan.at(400'000).first_sample, 400'000u * 4096u);
}

}  // namespace
}  // namespace athanor::train
