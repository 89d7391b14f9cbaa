// Every activation, loss and gradient of the reference vectors, in fp32 (golden/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"
#include "support/test_model.h"

namespace athanor::test {
namespace {

struct Case {
  const char* folder;
  const char* vectors;
  const char* gradients;  ///< null where there are none
};

/// The test's name in listings: an address would differ from run to run.
void PrintTo(  // NOLINT(readability-identifier-naming): GoogleTest looks for this name
    const Case& c, std::ostream* out) {
  *out << c.folder << '/' << c.vectors;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = fmt::format("{}_{}", info.param.folder, info.param.vectors);
  std::replace(name.begin(), name.end(), '.', '_');
  return name.substr(0, name.find("_safetensors"));
}

class GoldenForward : public testing::TestWithParam<Case> {};

TokenBatch batch_in(const std::map<std::string, Values>& vectors) {
  const auto optional = [&](const char* name) {
    const auto found = vectors.find(name);
    return found == vectors.end() ? nullptr : &found->second;
  };
  return batch_of(vectors.at("input_ids"), optional("targets"), optional("cu_seqlens"));
}

TEST_P(GoldenForward, ActivationsMeetTheReference) {
  const auto folder = golden_folder(GetParam().folder, GetParam().vectors);
  if (!folder) GTEST_SKIP() << golden_absent(GetParam().folder);
  const auto vectors = read_vectors(*folder / GetParam().vectors);
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const auto seen = model.forward(batch_in(vectors));
  const int compared = expect_outputs(seen, vectors);
  EXPECT_GE(compared, 3 * model.config().layers + 1);
}

TEST_P(GoldenForward, LossAndGradientsMeetTheReference) {
  const auto folder = golden_folder(GetParam().folder, GetParam().vectors);
  if (!folder) GTEST_SKIP() << golden_absent(GetParam().folder);
  const auto vectors = read_vectors(*folder / GetParam().vectors);
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/true);
  double loss = 0;
  const auto mine = model.gradients(batch_in(vectors), loss);
  EXPECT_NEAR(loss, vectors.at("loss").reals.at(0), kLossTolerance);
  if (GetParam().gradients == nullptr) return;
  const auto reference = read_vectors(*folder / GetParam().gradients);
  expect_gradients(mine, reference);
  EXPECT_GE(reference.size(), 61u);
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, GoldenForward,
    testing::Values(Case{"tiny", "vectors.safetensors", "grads.safetensors"},
                    Case{"odd", "vectors.safetensors", "grads.safetensors"},
                    Case{"odd", "vectors_t1.safetensors", "grads_t1.safetensors"},
                    Case{"odd", "vectors_t2.safetensors", nullptr},
                    Case{"realhead", "vectors.safetensors", "grads.safetensors"},
                    Case{"sliding", "vectors.safetensors", "grads.safetensors"},
                    Case{"skip", "vectors.safetensors", "grads.safetensors"},
                    Case{"packed", "vectors.safetensors", "grads.safetensors"},
                    Case{"packed", "vectors_edge.safetensors", "grads_edge.safetensors"},
                    Case{"native_bf16", "vectors.safetensors", nullptr}),
    name_of);

}  // namespace
}  // namespace athanor::test
