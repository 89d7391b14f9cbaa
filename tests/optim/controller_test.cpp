#include "optim/controller.h"

#include <gtest/gtest.h>

#include <cmath>

namespace athanor::optim {
namespace {

model::ModelConfig small_model(int64_t experts) {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 8;
  config.heads.query = config.heads.key = 2;
  config.heads.size = 4;
  config.experts = experts;
  config.expert_inner = 8;
  config.router = 8;
  config.vocab = 16;
  config.layer_kinds.assign(2, model::LayerKind::kFull);
  config.max_positions = 8;
  return config;
}

class ControllerTest : public testing::Test {
 protected:
  explicit ControllerTest() { arena_.reserve(1 << 16), scratch_.reserve(1 << 16); }
  Arena arena_{"state"}, scratch_{"scratch"};
  ops::Context ctx_{Threads(1), scratch_};
};

TEST_F(ControllerTest, BalancedCountsMoveNothingAtAll) {
  // 3 experts: 1/3 has no exact binary form, so that a gradient formed in floating point leaves a residue, which AdamW
  // blows up into whole steps.
  const model::ModelConfig config = small_model(3);
  const BalancingController controller(config, ops::Precision::kFp32, arena_);
  std::vector<float> values = {0.25f, -0.5f, 0.125f, -1.0f, 0.1f, 0.2f, 0.3f, -1.0f};
  const std::vector<float> before = values;
  const Tensor biases = Tensor::of(values.data(), {2, 4});
  for (int step = 1; step <= 20; ++step) {
    controller.step(ctx_, biases, std::vector<int64_t>{7, 7, 7, 0, 11, 11, 11, 0}, 1e-3, step);
  }
  EXPECT_EQ(values, before);
}

TEST_F(ControllerTest, OneStepIsAdamWOnTheExcessOfEachExpert) {
  const model::ModelConfig config = small_model(2);
  const BalancingController controller(config, ops::Precision::kFp32, arena_);
  std::vector<float> values = {0, 0, -1, 0, 0, -1};
  const Tensor biases = Tensor::of(values.data(), {2, 3});
  // Layer 0: 8 tokens, 5 to expert 0, 1 to expert 1, 2 skip: g = 5/8 − 1/2 and 1/8 − 1/2. Layer 1 routed nothing.
  controller.step(ctx_, biases, std::vector<int64_t>{5, 1, 2, 0, 0, 0}, 1e-3, 1);
  const auto moved = [](double g) { return -1e-3 * g / (std::abs(g) + 1e-8); };
  EXPECT_NEAR(values[0], moved(0.125), 1e-9);
  EXPECT_NEAR(values[1], moved(-0.375), 1e-9);
  EXPECT_EQ(values[2], -1.0f) << "the skip class is left out";
  EXPECT_EQ(values[3], 0.0f) << "a layer without tokens stays";
  EXPECT_NEAR(controller.state()[0].value.as<float>()[0], 0.1 * 0.125, 1e-9) << "first moment";
  EXPECT_NEAR(controller.state()[1].value.as<float>()[1], 0.001 * 0.375 * 0.375, 1e-9);
}

TEST_F(ControllerTest, LongRunsNeverMoveTheSkipClass) {
  const model::ModelConfig config = small_model(2);
  const BalancingController controller(config, ops::Precision::kFp32, arena_);
  std::vector<float> values = {0, 0, -1, 0, 0, -0.75f};
  for (int step = 1; step <= 100; ++step) {
    controller.step(ctx_, Tensor::of(values.data(), {2, 3}),
                    std::vector<int64_t>{step, 3, 90, 5, 5, step}, 1e-2, step);
  }
  EXPECT_EQ(values[2], -1.0f);
  EXPECT_EQ(values[5], -0.75f);
}

}  // namespace
}  // namespace athanor::optim
