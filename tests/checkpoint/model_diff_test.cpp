#include "checkpoint/model_diff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/model_transfer.h"
#include "checkpoint/tiny_parameters.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)
using nlohmann::json;

class Diff : public testing::Test {
 protected:
  fs::path write(const std::string& name, OwnParameters& parameters,
                 const ExportOptions& how = {.dtype = DType::kF32}) {
    export_model(scratch_ / name, parameters->config(), weights_of(*parameters), {}, how);
    return scratch_ / name;
  }
  static ModelDifference diff(const fs::path& a, const fs::path& b) {
    return diff_models(open_model(a), open_model(b));
  }
  ScratchFolder scratch_;
};

TEST_F(Diff, TheSameInAnyLayoutAndFormIsEqual) {
  OwnParameters parameters;
  parameters.count_up();
  const fs::path native = write("native", parameters);
  const fs::path legacy =
      write("legacy", parameters, {.dtype = DType::kF32, .layout = Layout::kLegacy});
  import_opened(open_model(legacy), scratch_ / "imported");
  for (const fs::path& other : {legacy, scratch_ / "imported"}) {
    const ModelDifference difference = diff(native, other);
    EXPECT_TRUE(difference.equal()) << to_text(difference);
    EXPECT_EQ(difference.tensors.size(), model_tensors(parameters->config()).size());
    EXPECT_NE(to_text(difference).find("every bit"), std::string::npos);
    EXPECT_EQ(json::parse(to_json(difference)).at("equal"), true);
  }
}

TEST_F(Diff, SaysWhichTensorDiffersAndByHowMuch) {
  OwnParameters parameters;
  parameters.count_up();
  auto* norm = parameters->find("model.norm.weight").value.as<float>();
  norm[0] = 3;
  norm[1] = 4;
  norm[2] = 0;
  const fs::path before = write("before", parameters);
  norm[2] = -0.5f;
  const fs::path after =
      write("after", parameters, {.dtype = DType::kF32, .layout = Layout::kLegacy});
  const ModelDifference difference = diff(before, after);
  EXPECT_FALSE(difference.equal());
  const json all = json::parse(to_json(difference)).at("different");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("name"), "model.norm.weight");
  EXPECT_EQ(all[0].at("elements"), 3);
  EXPECT_EQ(all[0].at("differing"), 1);
  EXPECT_EQ(all[0].at("differing_as_bf16"), 1);
  EXPECT_EQ(all[0].at("max_abs"), 0.5);
  EXPECT_EQ(all[0].at("relative"), 0.1) << "0.5 of a vector of length 5";
  EXPECT_EQ(all[0].at("dtype_a"), "F32");
  const std::string text = to_text(difference);
  EXPECT_NE(text.find("model.norm.weight: 1 of 3 elements differ, by 0.5 at most, 0.1 relative"),
            std::string::npos)
      << text;
}

TEST_F(Diff, ZerosOfTwoSignsDifferInABit) {
  OwnParameters parameters;
  parameters.count_up();
  auto* norm = parameters->find("model.norm.weight").value.as<float>();
  norm[0] = 0.0f;
  const fs::path a = write("a", parameters);
  norm[0] = -0.0f;
  const ModelDifference difference = diff(a, write("b", parameters));
  EXPECT_FALSE(difference.equal());
  EXPECT_EQ(json::parse(to_json(difference)).at("different")[0].at("max_abs"), 0.0);
}

TEST_F(Diff, ARoundedModelIsKnownAsThat) {
  OwnParameters parameters;
  parameters.count_up();
  const ModelDifference difference =
      diff(write("fp32", parameters), write("bf16", parameters, {.layout = Layout::kLegacy}));
  int64_t differing = 0;
  for (const TensorDifference& tensor : difference.tensors) {
    EXPECT_EQ(tensor.differing_as_bf16, 0) << tensor.name;
    EXPECT_LE(tensor.relative, 1.0 / 256) << tensor.name;
    differing += tensor.differing;
    EXPECT_EQ(tensor.dtype_b,
              tensor.name.ends_with("balancing_biases") ? DType::kF32 : DType::kBF16);
  }
  EXPECT_GT(differing, 100);
  EXPECT_NE(to_text(difference).find("equal when rounded to bf16"), std::string::npos);
}

TEST_F(Diff, CountsWhatIsNoNumber) {
  OwnParameters parameters;
  parameters.count_up();
  const fs::path a = write("a", parameters);
  const SafetensorsFile file(a / "model.safetensors");
  const TensorEntry& entry = file.at("model.norm.weight");
  const fs::path b = write("b", parameters);
  std::string bytes = read_file(b / "model.safetensors");
  const std::array<float, 2> bad{std::nanf(""), std::numeric_limits<float>::infinity()};
  std::memcpy(bytes.data() + entry.begin, bad.data(), sizeof bad);
  write_bytes(b / "model.safetensors", bytes);
  const json one = json::parse(to_json(diff(a, b))).at("different").at(0);
  EXPECT_EQ(one.at("not_finite_a"), 0);
  EXPECT_EQ(one.at("not_finite_b"), 2);
  EXPECT_EQ(one.at("differing"), 2);
  EXPECT_EQ(one.at("max_abs"), 0.0);
  // The same NaN on both sides differs in nothing, and is told all the same.
  const json both = json::parse(to_json(diff(b, b)));
  EXPECT_EQ(both.at("equal"), true);
  EXPECT_EQ(both.at("different").at(0).at("not_finite_a"), 2);
}

TEST_F(Diff, OtherGeometriesAreTold) {
  OwnParameters parameters;
  model::ModelConfig larger = tiny_config();
  larger.layers = 3;
  larger.layer_kinds.assign(3, model::LayerKind::kFull);
  larger.vocab = 6;
  larger.eos = 3;
  OwnParameters other(larger);
  const fs::path a = write("a", parameters);
  const fs::path b = write("b", other);
  const json report = json::parse(to_json(diff(a, b)));
  EXPECT_EQ(report.at("equal"), false);
  EXPECT_EQ(report.at("only_in_a").size(), 0u);
  EXPECT_EQ(report.at("only_in_b").size(), 32u);
  EXPECT_EQ(report.at("other_shape"),
            json::array({"model.embed_tokens.weight: F32[5, 3] and F32[6, 3]"}));
  const std::string config = report.at("config").dump();
  for (const char* key :
       {"num_hidden_layers: 2 and 3", "vocab_size: 5 and 6", "eos_token_id: 2 and 3"}) {
    EXPECT_NE(config.find(key), std::string::npos) << config;
  }
  EXPECT_EQ(json::parse(to_json(diff(b, a))).at("only_in_a").size(), 32u);
}

TEST_F(Diff, OfTwoCheckpointsTheOptimizersStateIsCompared) {
  OwnParameters parameters;
  parameters.count_up();
  std::vector<float> momentum = {1, 2, 3};
  const auto save = [&](const char* folder) {
    fs::create_directory(scratch_ / folder);
    std::vector<TensorSlice> slices = slices_of(*parameters);
    slices.push_back({"optimizer.momentum.x", {3}, 0, Tensor::of(momentum.data(), {3})});
    return save_checkpoint(scratch_ / folder, {.step = 4}, parameters->config(), slices, {});
  };
  const fs::path a = save("a");
  momentum[1] = 5;
  const fs::path b = save("b");
  const json report = json::parse(to_json(diff(a, b)));
  ASSERT_EQ(report.at("different").size(), 1u);
  EXPECT_EQ(report.at("different")[0].at("name"), "optimizer.momentum.x");
  EXPECT_EQ(report.at("different")[0].at("max_abs"), 3.0);
  // A model directory has none, and does not lack it.
  const ModelDifference with_model = diff(a, write("model", parameters));
  EXPECT_TRUE(with_model.equal()) << to_text(with_model);
}

}  // namespace
}  // namespace athanor::test
