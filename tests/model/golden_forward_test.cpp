// Every activation, loss and gradient of the reference vectors, in fp32 (golden/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/golden.h"
#include "support/test_model.h"

namespace athanor::test {
namespace {

struct Case {
  const char* folder;
  const char* vectors;
  const char* gradients;  ///< null where there are none
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = fmt::format("{}_{}", info.param.folder, info.param.vectors);
  std::replace(name.begin(), name.end(), '.', '_');
  return name.substr(0, name.find("_safetensors"));
}

class GoldenForward : public testing::TestWithParam<Case> {};

// Names in a vectors file that are no outputs.
bool is_input(const std::string& name) {
  return name == "input_ids" || name == "labels" || name == "targets" || name == "cu_seqlens" ||
         name == "position_ids" || name == "attention_mask" || name == "loss";
}

void expect_output(const std::string& name, const Values& mine, const Values& reference) {
  if (reference.integral) {
    EXPECT_EQ(mine.integers, reference.integers) << name;
  } else if (name == "logits") {
    EXPECT_LE(max_difference(mine.reals, reference.reals), kLogitsTolerance) << name;
  } else if (name.ends_with("router_margin")) {
    // A difference of two probabilities plus biases, which can be tiny: it carries their error, so
    // it is measured against their scale, 1.
    EXPECT_LE(max_difference(mine.reals, reference.reals), kActivationTolerance) << name;
  } else {
    EXPECT_LE(relative_difference(mine.reals, reference.reals), kActivationTolerance) << name;
  }
}

TokenBatch batch_in(const std::map<std::string, Values>& vectors) {
  const auto optional = [&](const char* name) {
    const auto found = vectors.find(name);
    return found == vectors.end() ? nullptr : &found->second;
  };
  return batch_of(vectors.at("input_ids"), optional("targets"), optional("cu_seqlens"));
}

TEST_P(GoldenForward, ActivationsMeetTheReference) {
  const auto folder = golden_folder(GetParam().folder);
  if (!folder) GTEST_SKIP() << golden_absent(GetParam().folder);
  const auto vectors = read_vectors(*folder / GetParam().vectors);
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const auto seen = model.forward(batch_in(vectors));
  int compared = 0;
  for (const auto& [name, reference] : vectors) {
    if (is_input(name)) continue;
    const auto found = seen.find(name);
    ASSERT_NE(found, seen.end()) << name << " is not observed";
    ASSERT_EQ(found->second.numel(), reference.numel()) << name;
    expect_output(name, found->second, reference);
    ++compared;
  }
  EXPECT_GE(compared, 3 * model.config().layers + 1);
}

// Rows (first index) of a stored gradient, summed up as `suffix` says.
std::vector<double> summarised(const Values& gradient, bool norms) {
  const int64_t rows = gradient.shape.at(0), width = gradient.numel() / rows;
  std::vector<double> summary(rows);
  for (int64_t i = 0; i < gradient.numel(); ++i) {
    const double x = gradient.reals[i];
    summary[i / width] += norms ? x * x : x;
  }
  if (norms) {
    for (double& x : summary) x = std::sqrt(x);
  }
  return summary;
}

// The part of my gradients that a reference name means: X, X.row_norms, X.row_sums, or X.e.
std::vector<double> gradient_named(const std::map<std::string, Values>& mine,
                                   const std::string& name) {
  if (const auto found = mine.find(name); found != mine.end()) return found->second.reals;
  const size_t dot = name.rfind('.');
  const auto found = mine.find(name.substr(0, dot));
  if (found == mine.end()) return {};
  const std::string suffix = name.substr(dot + 1);
  if (suffix == "row_norms") return summarised(found->second, /*norms=*/true);
  if (suffix == "row_sums") return summarised(found->second, /*norms=*/false);
  const int64_t size = found->second.numel() / found->second.shape.at(0);
  const auto begin = found->second.reals.begin() + std::stoll(suffix) * size;
  return {begin, begin + size};
}

TEST_P(GoldenForward, LossAndGradientsMeetTheReference) {
  const auto folder = golden_folder(GetParam().folder);
  if (!folder) GTEST_SKIP() << golden_absent(GetParam().folder);
  const auto vectors = read_vectors(*folder / GetParam().vectors);
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/true);
  double loss = 0;
  const auto mine = model.gradients(batch_in(vectors), loss);
  EXPECT_NEAR(loss, vectors.at("loss").reals.at(0), kLossTolerance);
  if (GetParam().gradients == nullptr) return;
  const auto reference = read_vectors(*folder / GetParam().gradients);
  for (const auto& [name, values] : reference) {
    const std::vector<double> own = gradient_named(mine, name);
    ASSERT_EQ(own.size(), values.reals.size()) << name;
    EXPECT_LE(relative_difference(own, values.reals), kGradientTolerance) << name;
  }
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
