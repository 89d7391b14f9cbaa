// Parameter counts and tensor names of the 8B and 74B geometries, without allocating them.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/config.h"
#include "model/parameters.h"
#include "support/golden.h"

namespace athanor::test {
namespace {

using nlohmann::json;

model::ModelConfig zaya(bool large) {  // zaya1.md §1
  model::ModelConfig config;
  config.layers = large ? 60 : 40;
  config.hidden = large ? 4096 : 2048;
  config.heads.query = large ? 16 : 8;
  config.heads.key = 2;
  config.heads.size = 128;
  config.experts = large ? 24 : 16;
  config.expert_inner = large ? 4096 : 2048;
  config.router = 256;
  config.vocab = 262272;
  config.layer_kinds.assign(config.layers, model::LayerKind::kFull);
  for (int64_t l = 0; large && l < config.layers; l += 2) {
    config.layer_kinds[l] = model::LayerKind::kSliding;
  }
  config.sliding_window = large ? 4097 : 0;
  config.max_positions = large ? 262144 : 131072;
  return config;
}

class GoldenAccounting : public testing::TestWithParam<const char*> {
 protected:
  bool large() const { return std::string(GetParam()) == "74b"; }
};

TEST_P(GoldenAccounting, CountsMeetTheReference) {
  const auto folder = golden_folder("accounting");
  if (!folder) GTEST_SKIP() << golden_absent("accounting");
  const json meta = json::parse(std::ifstream(*folder / "meta.json")).at(GetParam());
  const model::ParameterCounts counts = model::count_parameters(zaya(large()));
  EXPECT_EQ(counts.tensors_stored, meta.at("tensors_stored"));
  EXPECT_EQ(counts.total, meta.at("parameters"));
  EXPECT_EQ(counts.embedding, meta.at("embedding"));
  EXPECT_EQ(counts.non_embedding, meta.at("non_embedding"));
  EXPECT_EQ(counts.experts, meta.at("experts"));
  EXPECT_EQ(counts.active_non_embedding, meta.at("active_non_embedding"));
  EXPECT_EQ(counts.active_with_head, meta.at("active_with_lm_head"));
  EXPECT_EQ(counts.muon, meta.at("muon_parameters"));
  EXPECT_EQ(counts.adamw, meta.at("adamw_parameters"));
  EXPECT_EQ(counts.balancing_biases, meta.at("balancing_bias_values"));
}

TEST_P(GoldenAccounting, NamesAndShapesMeetTheReference) {
  const auto folder = golden_folder("accounting");
  if (!folder) GTEST_SKIP() << golden_absent("accounting");
  const std::string file = std::string("native_tensors_") + GetParam() + ".json";
  const json reference = json::parse(std::ifstream(*folder / file));
  json mine = json::object();
  for (const auto& spec : model::parameter_specs(zaya(large()))) mine[spec.name] = spec.shape;
  for (const auto& spec : model::buffer_specs(zaya(large()))) mine[spec.name] = spec.shape;
  EXPECT_EQ(mine, reference);
}

TEST_P(GoldenAccounting, APlanningArenaHoldsNothing) {
  Arena arena("values");
  const model::Parameters parameters(zaya(large()), ops::Precision::kFp32, arena);
  EXPECT_TRUE(arena.planning());
  EXPECT_EQ(parameters.numel(), model::count_parameters(zaya(large())).total);
  EXPECT_GE(arena.peak(), static_cast<size_t>(parameters.numel()) * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(Geometries, GoldenAccounting, testing::Values("8b", "74b"),
                         [](const auto& parameter) {
                           return "zaya_" + std::string(parameter.param);
                         });

}  // namespace
}  // namespace athanor::test
