#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include "base/random.h"
#include "ops/elementwise.h"
#include "ops/matrix.h"
#include "optim/clip.h"
#include "support/memory_world.h"

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
  explicit Lab(const OptimizerConfig& options, int threads = 1, comm::Communicator* ranks = nullptr,
               const model::ModelConfig& config = small_model())
      : world(ranks == nullptr ? alone : *ranks) {
    for (const bool planning : {true, false}) {
      if (!planning) {
        values.reserve(values.peak());
        state.reserve(state.peak());
        scratch.reserve(1 << 20);
      }
      parameters = std::make_unique<model::Parameters>(config, ops::Precision::kFp32, values);
      partition.emplace(*parameters, world.size());
      optimizer =
          std::make_unique<Optimizer>(*parameters, options, *partition, world.rank(), state);
    }
    ctx.emplace(Threads(threads), scratch);
    parameters->initialise(*ctx, 7);
    gradient.resize(static_cast<size_t>(parameters->numel()));
    RandomStream stream(3, 5);
    for (float& g : gradient) g = static_cast<float>(stream.normal());
  }
  /// Every element that is owned here must be told of, once.
  void step(const StepOptions& options) {
    std::vector<int> moved(gradient.size());
    optimizer->step(*ctx, world, parameters->space(), flat_gradient(), options,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) ++moved[static_cast<size_t>(i)];
                    });
    for (const Piece& piece : partition->pieces()) {
      for (int64_t i = piece.begin; i < piece.end; ++i) {
        ASSERT_EQ(moved[static_cast<size_t>(i)], piece.owner == world.rank() ? 1 : 0) << i;
      }
    }
  }
  double norm() {
    std::vector<double> blocks(static_cast<size_t>(norm_blocks(parameters->numel())));
    return global_norm(*ctx, world, *partition, flat_gradient(),
                       Tensor::of(blocks.data(), {static_cast<int64_t>(blocks.size())}));
  }
  Tensor flat_gradient() { return Tensor::of(gradient.data(), {parameters->numel()}); }
  std::vector<float> flat() const {
    const float* p = parameters->flat().as<float>();
    return {p, p + parameters->numel()};
  }

  comm::Communicator alone;
  comm::Communicator& world;
  std::optional<Partition> partition;
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
  lab.step(step);
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
  lab.step(step);
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
  lab.step(step);
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
  lab.step(step);
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
    one.step(step);
    three.step(step);
  }
  EXPECT_EQ(one.flat(), three.flat());
}

TEST(Partition, CutsAtTheEdgesOfNormBlocksAndCoversEverything) {
  Arena values("values");
  const model::Parameters parameters(small_model(), ops::Precision::kFp32, values);
  for (const int ranks : {1, 2, 3, 5, 8, 64}) {
    const Partition partition(parameters, ranks);
    int64_t next = 0;
    for (const Piece& piece : partition.pieces()) {
      EXPECT_EQ(piece.begin, next);
      EXPECT_LT(piece.begin, piece.end);
      EXPECT_EQ(piece.begin % ops::kNormBlock, 0);
      next = piece.end;
    }
    EXPECT_EQ(next, parameters.numel());
    // No rank has two parts of one tensor.
    for (const model::Parameter& parameter : parameters.all()) {
      std::multiset<int> owners;
      for (const Piece& piece : partition.pieces()) {
        if (piece.begin < parameter.offset + parameter.spec.numel() &&
            piece.end > parameter.offset) {
          owners.insert(piece.owner);
        }
      }
      for (const int owner : owners) EXPECT_EQ(owners.count(owner), 1u) << parameter.spec.name;
    }
  }
}

TEST(Partition, NoRankHasMuchMoreOfMuonsWorkThanAnother) {
  // The geometry of configs/small.toml.
  model::ModelConfig config;
  config.layers = 8;
  config.hidden = 512;
  config.heads.query = 8;
  config.heads.key = 2;
  config.heads.size = 64;
  config.experts = 16;
  config.expert_inner = 512;
  config.router = 128;
  config.vocab = 16384;
  config.layer_kinds.assign(8, model::LayerKind::kFull);
  config.max_positions = 8;
  Arena values("values");
  const model::Parameters parameters(config, ops::Precision::kFp32, values);
  for (const int ranks : {2, 4, 8}) {
    const auto matrices =
        plan_muon(parameters, OptimizerKind::kMuon, Partition(parameters, ranks), 5);
    const std::vector<double> loads = muon_loads(matrices, ranks, 5);
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / ranks;
    EXPECT_LT(*std::max_element(loads.begin(), loads.end()), 1.25 * mean) << ranks << " ranks";
    for (const MuonMatrix& matrix : matrices) {
      EXPECT_TRUE(std::ranges::any_of(matrix.parts, [&](const Piece& part) {
        return part.owner == matrix.worker;
      })) << "a matrix is worked on by one of its owners";
    }
  }
}

/// What one step comes to on so many ranks: all parameters, each from its owner.
std::vector<float> moved_by(int ranks, const OptimizerConfig& options,
                            const model::ModelConfig& config = small_model()) {
  std::vector<float> values;
  std::mutex mutex;
  test::run_ranks(ranks, {.part_bytes = 4096}, [&](comm::Communicator& world) {
    Lab lab(options, 1, &world, config);
    for (int64_t step = 1; step <= 2; ++step) {
      lab.step({.muon_learning_rate = 0.02, .adamw_learning_rate = 0.01, .step = step});
    }
    const std::lock_guard lock(mutex);
    values.resize(lab.gradient.size());
    for (const Piece& piece : lab.partition->pieces()) {
      if (piece.owner != world.rank()) continue;
      std::copy_n(lab.parameters->flat().as<float>() + piece.begin, piece.end - piece.begin,
                  values.begin() + piece.begin);
    }
  });
  return values;
}

TEST(Optimizer, RanksMoveTheSameWayTogetherAsOneAlone) {
  for (const OptimizerKind kind : {OptimizerKind::kMuon, OptimizerKind::kAdamW}) {
    const OptimizerConfig options{.kind = kind, .newton_schulz_dtype = DType::kF32};
    const std::vector<float> alone = moved_by(1, options);
    for (const int ranks : {2, 3, 5, 8}) EXPECT_EQ(moved_by(ranks, options), alone) << ranks;
  }
}

TEST(Optimizer, AMatrixMaySpanMoreThanTwoRanks) {
  Arena values("values");
  model::ModelConfig config = small_model();
  config.expert_inner = 256;  // matrices of 512 × 24: three blocks each
  config.hidden = 24;
  const model::Parameters parameters(config, ops::Precision::kFp32, values);
  const auto matrices = plan_muon(parameters, OptimizerKind::kMuon, Partition(parameters, 64), 5);
  EXPECT_TRUE(std::ranges::any_of(
      matrices, [](const MuonMatrix& matrix) { return matrix.parts.size() > 2; }));
  const OptimizerConfig options{.newton_schulz_dtype = DType::kF32};
  EXPECT_EQ(moved_by(32, options, config), moved_by(1, options, config));
}

TEST(Clip, NormIsOfAllElementsAndNotFiniteWhenOneIsNot) {
  Lab lab({});
  double squares = 0;
  for (const float g : lab.gradient) squares += static_cast<double>(g) * g;
  EXPECT_NEAR(lab.norm(), std::sqrt(squares), 1e-9);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const float kept = std::exchange(lab.gradient.back(), bad);
    EXPECT_FALSE(std::isfinite(lab.norm()));
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
