// The table of both layouts, against the lists of the released models.
#include "checkpoint/layout.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/model_directory.h"
#include "checkpoint/tiny_parameters.h"
#include "support/golden.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)
using nlohmann::json;

model::ModelConfig released(bool large) {
  model::ModelConfig config;
  config.layers = large ? 60 : 40;
  config.hidden = large ? 4096 : 2048;
  config.heads.query = large ? 16 : 8;
  config.heads.key = 2;
  config.heads.size = 128;
  config.experts = large ? 24 : 16;
  config.expert_inner = large ? 4096 : 2048;
  config.router = 256;
  config.vocab = 262'272;
  config.layer_kinds.assign(static_cast<size_t>(config.layers), model::LayerKind::kFull);
  return config;
}

TEST(Layout, NamesAndShapesAreThoseOfTheReleasedModels) {
  const auto folder = golden_folder("accounting");
  if (!folder) GTEST_SKIP() << golden_absent("accounting");
  const auto check = [&](const char* file, bool large, Layout layout, size_t count) {
    const json expected = json::parse(std::ifstream(*folder / file));
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const LayoutTensor& tensor : layout_tensors(released(large), layout)) {
      EXPECT_TRUE(shapes.emplace(tensor.name, tensor.shape).second) << tensor.name << " twice";
    }
    EXPECT_EQ(shapes.size(), count);
    EXPECT_EQ(shapes, (expected.get<std::map<std::string, std::vector<int64_t>>>())) << file;
  };
  check("native_tensors_8b.json", false, Layout::kNative, 1283);
  check("native_tensors_74b.json", true, Layout::kNative, 1923);
  check("legacy_tensors_8b.json", false, Layout::kLegacy, 2483);
}

TEST(Layout, EveryElementHasOnePlace) {
  for (const Layout layout : {Layout::kNative, Layout::kLegacy}) {
    const std::vector<ModelTensor> tensors = model_tensors(tiny_config());
    std::map<size_t, std::map<int64_t, int64_t>> pieces;  // tensor, begin, length
    for (const LayoutTensor& tensor : layout_tensors(tiny_config(), layout)) {
      EXPECT_TRUE(pieces[tensor.tensor].emplace(tensor.begin, tensor.numel()).second);
    }
    ASSERT_EQ(pieces.size(), tensors.size());
    for (const auto& [tensor, parts] : pieces) {
      int64_t end = 0;
      for (const auto& [begin, length] : parts) {
        EXPECT_EQ(begin, end) << tensors[tensor].spec.name;
        end = begin + length;
      }
      EXPECT_EQ(end, tensors[tensor].spec.numel());
    }
  }
}

TEST(Layout, BothNamesOfATensorAreThoseOfTheReferenceMap) {
  const auto folder = golden_folder("legacy");
  if (!folder) GTEST_SKIP() << golden_absent("legacy");
  const json map = json::parse(std::ifstream(*folder / "meta.json")).at("name_map");
  const model::ModelConfig config = read_model_config(*folder);
  const std::vector<ModelTensor> tensors = model_tensors(config);
  std::map<std::string, std::vector<std::string>> names;
  for (const LayoutTensor& tensor : layout_tensors(config, Layout::kLegacy)) {
    names[tensors[tensor.tensor].spec.name].push_back(tensor.name);
  }
  ASSERT_EQ(names.size(), map.size());
  for (const auto& [native, legacy] : map.items()) {
    const auto expected = legacy.is_array() ? legacy.get<std::vector<std::string>>()
                                            : std::vector{legacy.get<std::string>()};
    EXPECT_EQ(names[native], expected) << native;
  }
}

}  // namespace
}  // namespace athanor::test
