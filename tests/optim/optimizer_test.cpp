#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.h"
#include "ops/matrix.h"
#include "optim/clip.h"

namespace athanor::optim {
namespace {

model::ModelConfig small_model() {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 24;
  config.heads.query = 4;
  config.heads.key = 2;
  config.heads.size = 8;
  config.experts = 3;
  config.expert_inner = 20;
  config.router = 12;
  config.vocab = 40;
  config.layer_kinds.assign(2, model::LayerKind::kFull);
  config.max_positions = 8;
  return config;
}

/// Parameters with state, planned and then built.
struct Lab {
  explicit Lab(const OptimizerConfig& options, int threads = 1) {
    for (const bool planning : {true, false}) {
      if (!planning) {
        values.reserve(values.peak());
        state.reserve(state.peak());
        scratch.reserve(1 << 20);
      }
      parameters =
          std::make_unique<model::Parameters>(small_model(), ops::Precision::kFp32, values);
      optimizer = std::make_unique<Optimizer>(*parameters, options, state);
    }
    ctx.emplace(Threads(threads), scratch);
    parameters->initialise(*ctx, 7);
    gradient.resize(static_cast<size_t>(parameters->numel()));
    RandomStream stream(3, 5);
    for (float& g : gradient) g = static_cast<float>(stream.normal());
  }
  Tensor flat_gradient() { return Tensor::of(gradient.data(), {parameters->numel()}); }
  std::vector<float> flat() const {
    const float* p = parameters->flat().as<float>();
    return {p, p + parameters->numel()};
  }

  Arena values{"values"}, state{"state"}, scratch{"scratch"};
  std::unique_ptr<model::Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<ops::Context> ctx;
  std::vector<float> gradient;
};

TEST(Optimizer, EveryTensorHasTheStateOfItsRuleAndNoOther) {
  Lab lab({});
  std::set<std::string> names;
  for (const StateTensor& tensor : lab.optimizer->state()) names.insert(tensor.name);
  size_t expected = 0;
  for (const model::Parameter& parameter : lab.parameters->all()) {
    const std::string& name = parameter.spec.name;
    const bool matrix = parameter.spec.kind == model::ParameterKind::kMatrix ||
                        parameter.spec.kind == model::ParameterKind::kExpertMatrices;
    EXPECT_EQ(names.contains("optimizer.momentum." + name), matrix) << name;
    EXPECT_EQ(names.contains("optimizer.exp_avg." + name), !matrix) << name;
    EXPECT_EQ(names.contains("optimizer.exp_avg_sq." + name), !matrix) << name;
    expected += matrix ? 1 : 2;
  }
  EXPECT_EQ(names.size(), expected);
}

TEST(Optimizer, EachExpertIsItsOwnMatrix) {
  OptimizerConfig options;
  options.newton_schulz_dtype = DType::kF32;
  Lab lab(options);
  const model::Parameter& experts = lab.parameters->find("model.layers.1.mlp.experts.gate_up_proj");
  const std::vector<float> before = lab.flat();
  StepOptions step;
  step.muon_learning_rate = 0.01;
  lab.optimizer->step(*lab.ctx, *lab.parameters, lab.flat_gradient(), step);
  const int64_t rows = experts.spec.shape[1];
  const int64_t cols = experts.spec.shape[2];
  for (int64_t e = 0; e < experts.spec.shape[0]; ++e) {
    const auto at = static_cast<size_t>(experts.offset + e * rows * cols);
    // The first step's direction: (1−μ)g + μ(1−μ)g, whose scale the orthogonalisation removes.
    std::vector<float> o(lab.gradient.begin() + static_cast<int64_t>(at),
                         lab.gradient.begin() + static_cast<int64_t>(at) + rows * cols);
    const Tensor matrix = Tensor::of(o.data(), {rows, cols});
    ops::newton_schulz(*lab.ctx, DType::kF32, matrix, matrix);
    const double scale = 0.01 * 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
    for (size_t i = 0; i < o.size(); ++i) {
      const double expected = before[at + i] * (1 - 0.01 * 0.1) - scale * o[i];
      ASSERT_NEAR(lab.flat()[at + i], expected, 1e-6) << "expert " << e;
    }
  }
}

TEST(Optimizer, OneDimensionalTensorsDoNotDecay) {
  OptimizerConfig options;
  options.weight_decay = 0.5;
  Lab lab(options);
  std::fill(lab.gradient.begin(), lab.gradient.end(), 0.0f);
  const std::vector<float> before = lab.flat();
  StepOptions step;
  step.muon_learning_rate = step.adamw_learning_rate = 0.1;
  lab.optimizer->step(*lab.ctx, *lab.parameters, lab.flat_gradient(), step);
  const std::vector<float> after = lab.flat();
  for (const model::Parameter& parameter : lab.parameters->all()) {
    const double factor = parameter.spec.kind == model::ParameterKind::kVector ? 1.0 : 0.95;
    for (int64_t i = 0; i < parameter.spec.numel(); ++i) {
      const auto at = static_cast<size_t>(parameter.offset + i);
      ASSERT_NEAR(after[at], before[at] * factor, 1e-6) << parameter.spec.name;
    }
  }
}

TEST(Optimizer, AdamWAloneMovesEveryTensorByItsLearningRate) {
  OptimizerConfig options;
  options.kind = OptimizerKind::kAdamW;
  options.weight_decay = 0;
  Lab lab(options);
  const std::vector<float> before = lab.flat();
  StepOptions step;
  step.adamw_learning_rate = 0.01;
  lab.optimizer->step(*lab.ctx, *lab.parameters, lab.flat_gradient(), step);
  const std::vector<float> after = lab.flat();
  for (size_t i = 0; i < after.size(); ++i) {
    // The first step of AdamW is the sign of the gradient.
    ASSERT_NEAR(after[i], before[i] - std::copysign(0.01, lab.gradient[i]), 2e-6) << i;
  }
}

TEST(Optimizer, AdamWGoesByItsSettings) {
  OptimizerConfig options;
  options.kind = OptimizerKind::kAdamW;
  options.weight_decay = 0;
  options.beta1 = 0.75;
  options.beta2 = 0.5;
  options.epsilon = 0.125;
  Lab lab(options);
  const std::vector<float> before = lab.flat();
  StepOptions step;
  step.adamw_learning_rate = 0.01;
  step.gradient_scale = 0.5;
  lab.optimizer->step(*lab.ctx, *lab.parameters, lab.flat_gradient(), step);
  const std::vector<float> after = lab.flat();
  for (size_t i = 0; i < after.size(); ++i) {
    const double g = 0.5 * lab.gradient[i];  // the first step's corrected moments are g and g²
    ASSERT_NEAR(after[i], before[i] - 0.01 * g / (std::abs(g) + 0.125), 1e-7) << i;
  }
  const model::Parameter& parameter = lab.parameters->all().front();
  for (const StateTensor& tensor : lab.optimizer->state()) {
    const auto g = 0.5 * lab.gradient[static_cast<size_t>(parameter.offset)];
    if (tensor.name == "optimizer.exp_avg." + parameter.spec.name) {
      EXPECT_NEAR(tensor.value.as<float>()[0], 0.25 * g, 1e-7);
    }
    if (tensor.name == "optimizer.exp_avg_sq." + parameter.spec.name) {
      EXPECT_NEAR(tensor.value.as<float>()[0], 0.5 * g * g, 1e-7);
    }
  }
}

TEST(Optimizer, BitsDoNotDependOnThreads) {
  Lab one({}, 1);
  Lab three({}, 3);
  StepOptions step;
  step.muon_learning_rate = step.adamw_learning_rate = 0.02;
  step.gradient_scale = 0.3;
  for (step.step = 1; step.step <= 3; ++step.step) {
    one.optimizer->step(*one.ctx, *one.parameters, one.flat_gradient(), step);
    three.optimizer->step(*three.ctx, *three.parameters, three.flat_gradient(), step);
  }
  EXPECT_EQ(one.flat(), three.flat());
}

TEST(Optimizer, AStepRaisesTheParametersVersion) {
  Lab lab({});
  const uint64_t before = lab.parameters->version();
  lab.optimizer->step(*lab.ctx, *lab.parameters, lab.flat_gradient(), {});
  EXPECT_GT(lab.parameters->version(), before) << "the model would go on with old packed weights";
}

TEST(Clip, NormIsOfAllElementsAndNotFiniteWhenOneIsNot) {
  Lab lab({});
  std::vector<double> blocks(static_cast<size_t>(norm_blocks(lab.parameters->numel())));
  double squares = 0;
  for (const float g : lab.gradient) squares += static_cast<double>(g) * g;
  EXPECT_NEAR(global_norm(*lab.ctx, lab.flat_gradient(), blocks), std::sqrt(squares), 1e-9);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const float kept = std::exchange(lab.gradient.back(), bad);
    EXPECT_FALSE(std::isfinite(global_norm(*lab.ctx, lab.flat_gradient(), blocks)));
    lab.gradient.back() = kept;
  }
}

TEST(Clip, ScalesDownAndNeverUp) {
  EXPECT_DOUBLE_EQ(clip_scale(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_scale(1e9, 0.0), 1.0) << "0 turns clipping off";
}

}  // namespace
}  // namespace athanor::optim
