// That a model larger than a machine's memory goes through: what import, export and diff have resident does not grow with the
// model.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "checkpoint/model_directory.h"
#include "support/allocations.h"
#include "support/program.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

/// Numbers that are a function of their place, all of them exact in bf16.
class MadeUpWeights final : public checkpoint::WeightSource {
 public:
  DType dtype(const model::ParameterSpec&) const override { return DType::kBF16; }
  void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const override {
    const uint64_t stream = std::hash<std::string>()(spec.name);
    std::vector<float> values(static_cast<size_t>(into.numel()));
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t x = (stream + static_cast<uint64_t>(begin) + i) * 0x9E3779B97F4A7C15u;
      values[i] = static_cast<float>(static_cast<int>(x >> 56) - 128) / 64;
    }
    checkpoint::convert_elements(values.data(), DType::kF32, into.data(), into.dtype(),
                                 into.numel());
  }
  std::string place(const model::ParameterSpec& spec, int64_t) const override { return spec.name; }
};

/// The 8B with fewer layers (zaya1.md §5.1).
model::ModelConfig true_shapes(int64_t layers) {
  model::ModelConfig config;
  config.layers = layers;
  config.hidden = 2048;
  config.heads.query = 8;
  config.heads.key = 2;
  config.heads.size = 128;
  config.experts = 16;
  config.expert_inner = 2048;
  config.router = 256;
  config.vocab = 262'272;
  config.theta = 5e6;
  config.max_positions = 131'072;
  config.layer_kinds.assign(static_cast<size_t>(layers), model::LayerKind::kFull);
  return config;
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  return std::system(("cmp -s '" + a.string() + "' '" + b.string() + "'").c_str()) == 0;
}

/// Native to legacy, back, into a checkpoint and out of it; the bytes must be the same, and no process may have had more than
/// `most` bytes resident.
void expect_streamed(const model::ModelConfig& config, int64_t most) {
  const ScratchFolder folder;
  const double gigabytes = static_cast<double>(model::count_parameters(config).total) * 2e-9;
  if (static_cast<double>(fs::space(folder.path()).available) < 3.5e9 * gigabytes) {
    GTEST_SKIP() << "NOT TRIED: " << 3.5 * gigabytes << " GB of disk are wanted";
  }
  const fs::path native = folder / "native";
  checkpoint::export_model(native, config, MadeUpWeights(), {}, {});
  int64_t peak = 0;
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "checkpoint");
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = athanor(arguments);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    printf("%s: %.1f s, %.2f GB/s\n", arguments[1].c_str(), seconds.count(),
           gigabytes / seconds.count());
    peak = std::max(peak, outcome.peak_bytes);
    // A sanitizer has memory of its own.
    if (counts_allocations()) {
      EXPECT_LT(outcome.peak_bytes, most) << arguments[1];
    }
    return outcome.out;
  };
  run({"export", native, folder / "legacy", "--layout", "legacy"});
  const auto expect_native = [&](const fs::path& other) {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(native)) {
      EXPECT_TRUE(same_bytes(entry.path(), other / entry.path().filename())) << entry.path();
      ++files;
    }
    EXPECT_GE(files, 3u);
  };
  run({"export", folder / "legacy", folder / "back"});
  expect_native(folder / "back");
  fs::remove_all(folder / "back");
  EXPECT_NE(run({"diff", native, folder / "legacy"}).find("every bit"), std::string::npos);
  run({"import", folder / "legacy", folder / "imported"});
  fs::remove_all(folder / "legacy");
  run({"export", folder / "imported", folder / "out"});
  expect_native(folder / "out");
  printf("resident at most: %.0f MB\n", static_cast<double>(peak) * 1e-6);
}

TEST(Streaming, OneThirdOfAGigabyteInAThirdOfItsMemory) {
  model::ModelConfig config = true_shapes(2);
  config.vocab = 4096;
  config.experts = 5;
  expect_streamed(config, 100'000'000);
}

TEST(Streaming, EightLayersOfThe8B) {
  if (std::getenv("ATHANOR_TEST_FULL") == nullptr) GTEST_SKIP() << "long: ATHANOR_TEST_FULL=1";
  expect_streamed(true_shapes(8), 200'000'000);
}

}  // namespace
}  // namespace athanor::test
