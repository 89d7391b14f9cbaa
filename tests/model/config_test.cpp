// Geometry: what is refused, and what counting gives for the released models (zaya1.md §3;
// golden/accounting).
#include "model/config.h"

#include <gtest/gtest.h>

#include "lab.h"

namespace athanor::model {
namespace {

ModelConfig released_8b() {
  ModelConfig c;
  c.layers = 40;
  c.hidden = 2048;
  c.heads = {8, 2, 128};
  c.experts = 16;
  c.expert_inner = 2048;
  c.router = 256;
  c.vocab = 262272;
  c.layer_kinds.assign(40, LayerKind::kFull);
  c.theta = 5e6;
  c.max_positions = 131072;
  return c;
}

ModelConfig released_74b() {
  ModelConfig c = released_8b();
  c.layers = 60;
  c.hidden = 4096;
  c.heads = {16, 2, 128};
  c.experts = 24;
  c.expert_inner = 4096;
  c.theta = 1e7;
  c.sliding_window = 4097;
  c.layer_kinds.clear();
  for (int l = 0; l < 60; ++l) {
    c.layer_kinds.push_back(l % 2 == 0 ? LayerKind::kSliding : LayerKind::kFull);
  }
  return c;
}

TEST(Config, CountsOfTheReleasedModels) {
  const ParameterCounts b8 = count_parameters(released_8b());
  EXPECT_EQ(b8.total, 8840488784);
  EXPECT_EQ(b8.embedding, 537133056);
  EXPECT_EQ(b8.non_embedding, 8303355728);
  EXPECT_EQ(b8.experts, 8053063680);
  EXPECT_EQ(b8.active_non_embedding, 753608528);
  EXPECT_EQ(b8.active_with_head, 1290741584);
  EXPECT_EQ(b8.muon, 8289167360);
  EXPECT_EQ(b8.adamw, 551321424);
  EXPECT_EQ(b8.balancing_biases, 680);
  EXPECT_EQ(b8.tensors_stored, 1283);
  const ParameterCounts b74 = count_parameters(released_74b());
  EXPECT_EQ(b74.total, 74793953144);
  EXPECT_EQ(b74.active_non_embedding, 4262012792);
  EXPECT_EQ(b74.muon, 73681198080);
  EXPECT_EQ(b74.balancing_biases, 1500);
  EXPECT_EQ(b74.tensors_stored, 1923);
}

TEST(Config, TrainingFlops) {
  const ModelConfig c = released_74b();
  const double matrices = 6.0 * 5336278904.0, key = 12.0 * 16 * 128;
  EXPECT_DOUBLE_EQ(training_flops_per_token(c, 100), matrices + 60 * key * 100);
  EXPECT_DOUBLE_EQ(training_flops_per_token(c, 10000), matrices + 30 * key * (10000 + 4097));
}

TEST(Config, NamesWhatTheEquationsExclude) {
  const auto refuses = [](const std::function<void(ModelConfig&)>& spoil, const std::string& word) {
    ModelConfig c = small_config();
    spoil(c);
    try {
      c.validate();
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kUsage);
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refuses([](ModelConfig& c) { c.layers = 0; }, "layers");
  refuses([](ModelConfig& c) { c.hidden = 0; }, "hidden");
  refuses([](ModelConfig& c) { c.heads.key = 0; }, "key_value_heads");
  refuses([](ModelConfig& c) { c.heads.query = 3; }, "no multiple");
  refuses([](ModelConfig& c) { c.heads.size = -1; }, "head_size");
  refuses([](ModelConfig& c) { c.heads = {3, 1, 5}; }, "width of the values");
  refuses([](ModelConfig& c) { c.partial_rotary = 0.5; }, "rotates 3");
  refuses([](ModelConfig& c) { c.partial_rotary = 1.5; }, "partial_rotary");
  refuses([](ModelConfig& c) { c.experts = 0; }, "experts");
  refuses([](ModelConfig& c) { c.router = 0; }, "router");
  refuses([](ModelConfig& c) { c.vocab = 0; }, "vocab");
  refuses([](ModelConfig& c) { c.expert_inner = 0; }, "expert_inner");
  refuses([](ModelConfig& c) { c.sliding_window = 0; }, "sliding_window");
  refuses([](ModelConfig& c) { c.layer_kinds.pop_back(); }, "layer_kinds");
  refuses([](ModelConfig& c) { c.theta = 0; }, "theta");
  refuses([](ModelConfig& c) { c.rms_norm_eps = std::nan(""); }, "rms_norm_eps");
  ModelConfig c = small_config();
  c.router = 0;
  try {
    c.validate({.router = "a.b"});
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("a.b is 0")) << e.what();
  }
  EXPECT_NO_THROW(small_config().validate());
  EXPECT_NO_THROW(released_8b().validate());
  EXPECT_NO_THROW(released_74b().validate());
}

TEST(Parameters, PlanningTakesShapesAlone) {
  Arena plan("plan");
  Parameters parameters(released_74b(), ops::Precision::kFp32, plan);
  EXPECT_EQ(parameters.numel(), 74793953144);
  EXPECT_GE(plan.peak(), size_t{4} * 74793953144);
  EXPECT_LT(plan.peak(), size_t{4} * (74793953144 + 1500) + 4096);
}

TEST(Parameters, InitialValuesDependOnNameAndSeedAlone) {
  const auto values = [](const ModelConfig& config, int threads, uint64_t seed) {
    Lab lab(config, ops::Precision::kFp32, 0, {}, threads);
    lab.parameters->initialise(lab.ctx, seed);
    std::map<std::string, std::vector<double>> all;
    for (const Parameter& p : lab.parameters->all()) all[p.spec.name] = copy_of(p.value);
    const Tensor& biases = lab.parameters->balancing_biases();
    for (int64_t l = 0; l < biases.rows(); ++l) {
      for (int64_t e = 0; e < biases.cols(); ++e) {
        EXPECT_EQ(get(biases, l * biases.cols() + e), e + 1 < biases.cols() ? 0 : -1);
      }
    }
    return all;
  };
  ModelConfig config = small_config();
  config.vocab = 1500;  // more than one block of random numbers
  const auto first = values(config, 1, 5);
  EXPECT_EQ(first, values(config, 2, 5));
  EXPECT_NE(first, values(config, 1, 6));
  ModelConfig deeper = config;
  deeper.layers = 3;
  deeper.layer_kinds.push_back(LayerKind::kFull);
  const auto third = values(deeper, 1, 5);
  for (const auto& [name, tensor] : first) EXPECT_EQ(tensor, third.at(name)) << name;

  double sum = 0, squares = 0;
  const auto& table = first.at("model.embed_tokens.weight");
  for (const double x : table) sum += x, squares += x * x;
  EXPECT_FALSE(std::equal(table.begin(), table.begin() + 4096, table.begin() + 4096))
      << "the second block of random numbers repeats the first";
  const double n = static_cast<double>(table.size());
  EXPECT_NEAR(sum / n, 0, 4 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.02 * 4 / std::sqrt(2 * n));
  for (const auto& [name, tensor] : first) {
    const bool one =
        name.ends_with("norm.weight") || name.ends_with("scale") || name.ends_with("temp");
    if (one || name.ends_with("bias")) {
      for (const double x : tensor) EXPECT_EQ(x, one ? 1 : 0) << name;
    } else {
      EXPECT_GT(*std::ranges::max_element(tensor), 0) << name;
    }
  }
}

}  // namespace
}  // namespace athanor::model
