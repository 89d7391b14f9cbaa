// Thirty training steps against the reference trajectory (golden/train).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/model_directory.h"
#include "optim/clip.h"
#include "optim/controller.h"
#include "optim/groups.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "support/golden.h"
#include "support/test_model.h"

namespace athanor::test {
namespace {

// Tolerances of golden/README.md.
constexpr double kTrainLoss = 5e-5, kTrainNorm = 2e-4, kTrainBiases = 2e-6, kTrainParameters = 1e-4;
constexpr double kBiasLearningRate = 1e-3;
constexpr int64_t kSteps = 30, kWarmup = 5;

std::vector<double> slice(const Values& values, int64_t index, int64_t count) {
  const auto begin = values.reals.begin() + index * count;
  return {begin, begin + count};
}

// ‖Δ‖/‖p‖ of every tensor of a stored model.
void expect_parameters(model::Parameters& parameters, const fs::path& path) {
  const auto reference = read_vectors(path);
  for (const model::Parameter& parameter : parameters.all()) {
    const std::vector<double> mine = values_of(parameter.value).reals;
    const std::vector<double>& theirs = reference.at(parameter.spec.name).reals;
    ASSERT_EQ(mine.size(), theirs.size());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      difference += (mine[i] - theirs[i]) * (mine[i] - theirs[i]);
      norm += theirs[i] * theirs[i];
    }
    EXPECT_LE(std::sqrt(difference), kTrainParameters * std::sqrt(norm)) << parameter.spec.name;
  }
}

TEST(GoldenTrain, ThirtyStepsFollowTheReference) {
  const auto folder = golden_folder("train");
  if (!folder) GTEST_SKIP() << golden_absent("train");
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/true);
  model::Parameters& parameters = model.parameters();
  const int64_t layers = model.config().layers, classes = model.config().classes();

  comm::Communicator alone;
  const optim::Partition partition(parameters, 1);
  Arena state("optimizer");
  optim::OptimizerConfig config;
  config.newton_schulz_dtype = DType::kF32;
  {
    optim::Optimizer plan(parameters, config, partition, 0, state);
    optim::BalancingController controller(model.config(), ops::Precision::kFp32, state);
    state.reserve(state.peak());
  }
  const optim::Optimizer optimizer(parameters, config, partition, 0, state);
  const optim::BalancingController controller(model.config(), ops::Precision::kFp32, state);
  Arena scratch("scratch");
  scratch.reserve(size_t{64} << 20);
  ops::Context ctx(Threads(2), scratch);
  std::vector<double> blocks(optim::norm_blocks(parameters.numel()));
  const optim::Schedule schedule{optim::ScheduleKind::kCosine, 3e-3, 1e-3, kWarmup, kSteps};

  const Values& ids = vectors.at("input_ids");  // [30, B, T]
  const int64_t rows = ids.shape[1], length = ids.shape[2];
  for (int64_t s = 0; s < kSteps; ++s) {
    Values step_ids, targets;
    step_ids.shape = targets.shape = {rows, length};
    const auto begin = ids.integers.begin() + s * rows * length;
    step_ids.integers.assign(begin, begin + rows * length);
    for (int64_t i = 0; i < rows * length; ++i) {
      targets.integers.push_back((i + 1) % length == 0 ? -100 : step_ids.integers[i + 1]);
    }
    double loss = 0;
    std::vector<int64_t> counts;
    model.gradients(batch_of(step_ids, &targets), loss, &counts);
    EXPECT_NEAR(loss, vectors.at("loss").reals[s], kTrainLoss) << "step " << s;
    EXPECT_NEAR(loss, vectors.at("loss_fp64").reals[s], kTrainLoss) << "step " << s;

    const Tensor gradient = model.flat_gradients();
    const double norm =
        optim::global_norm(ctx, alone, partition, gradient,
                           Tensor::of(blocks.data(), {static_cast<int64_t>(blocks.size())}));
    const double reference_norm = vectors.at("grad_norm").reals[s];
    EXPECT_NEAR(norm, reference_norm, kTrainNorm * reference_norm) << "step " << s;
    const Values& all_counts = vectors.at("expert_counts");
    const auto count_begin = all_counts.integers.begin() + s * layers * classes;
    EXPECT_EQ(counts, std::vector<int64_t>(count_begin, count_begin + layers * classes))
        << "step " << s;

    const double rate = optim::learning_rate(schedule, s);
    EXPECT_NEAR(rate, vectors.at("lr").reals[s], 1e-12) << "step " << s;
    optim::StepOptions options;
    options.muon_learning_rate = options.adamw_learning_rate = rate;
    options.gradient_scale = optim::clip_scale(norm, 1.0);
    options.step = s + 1;
    optimizer.step(ctx, alone, parameters.space(), gradient, options, [](int64_t, int64_t) {});
    parameters.touch();
    controller.step(ctx, parameters.balancing_biases(), counts, kBiasLearningRate, s + 1);
    EXPECT_LE(max_difference(values_of(parameters.balancing_biases()).reals,
                             slice(vectors.at("balancing_biases"), s, layers * classes)),
              kTrainBiases)
        << "step " << s;
    if (s == 0) expect_parameters(parameters, *folder / "params_after_step1.safetensors");
    if (HasFailure()) return;  // what follows a first difference says nothing more
  }
  expect_parameters(parameters, *folder / "params_final.safetensors");
}

TEST(GoldenTrain, GroupsAreTheReferenceLists) {
  const auto folder = golden_folder("train");
  if (!folder) GTEST_SKIP() << golden_absent("train");
  const auto meta = nlohmann::json::parse(std::ifstream(*folder / "meta.json")).at("groups");
  std::map<optim::Rule, std::set<std::string>> mine;
  for (const auto& spec : model::parameter_specs(checkpoint::read_model_config(*folder))) {
    mine[optim::rule_of(optim::OptimizerKind::kMuon, spec.kind)].insert(spec.name);
  }
  EXPECT_EQ(mine[optim::Rule::kMuon], meta.at("muon").get<std::set<std::string>>());
  EXPECT_EQ(mine[optim::Rule::kAdamW], meta.at("adamw_decay").get<std::set<std::string>>());
  EXPECT_EQ(mine[optim::Rule::kAdamWNoDecay],
            meta.at("adamw_no_decay").get<std::set<std::string>>());
}

}  // namespace
}  // namespace athanor::test
