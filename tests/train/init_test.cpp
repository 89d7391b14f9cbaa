// Runs that start from a model: its weights, its optimizer's state, its tokenizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_transfer.h"
#include "data/tokenizer.h"
#include "support/golden.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

constexpr const char* kGiven = "run.init_optimizer=given";

fs::path step_of(const fs::path& run, int64_t step) {
  return run / "checkpoints" / checkpoint::checkpoint_name(step);
}

std::vector<float> stored(const checkpoint::Checkpoint& checkpoint, const std::string& name) {
  const checkpoint::StoredTensor* tensor = checkpoint.manifest().find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(static_cast<size_t>(tensor->numel()));
  checkpoint.read(name, 0, Tensor::of(values.data(), {tensor->numel()}));
  return values;
}

int64_t applied_steps(const checkpoint::Checkpoint& checkpoint) {
  return nlohmann::json::parse(checkpoint.manifest().state).at("applied_steps").get<int64_t>();
}

/// The first step from `init`, with or without its optimizer's state.
checkpoint::Checkpoint first_step(const Lab& lab, const std::string& out, const fs::path& init,
                                  std::vector<std::string> overrides) {
  TrainOptions options = lab.options(out, std::move(overrides));
  options.init = init.string();
  options.steps = 1;
  return checkpoint::Checkpoint::open(train(options).checkpoint);
}

TEST(Init, GivenStateIsWhatTheNextStepGoesOnFrom) {
  const Lab lab;
  train(lab.options("first"));
  const fs::path init = step_of(lab.out("first"), 12);
  const auto before = checkpoint::Checkpoint::open(init);
  const auto given = first_step(lab, "given", init, {kGiven});
  const auto fresh = first_step(lab, "fresh", init, {"run.init_optimizer=fresh"});
  EXPECT_EQ(applied_steps(given), 13);
  EXPECT_EQ(applied_steps(fresh), 1);
  // Both took the same gradient G: (decay·M + (1 − decay)·G) − (1 − decay)·G = decay·M.
  int compared = 0;
  for (const checkpoint::StoredTensor& tensor : before.manifest().tensors) {
    const bool momentum = tensor.name.starts_with("optimizer.momentum.");
    const bool average = tensor.name.starts_with("optimizer.exp_avg.");
    if (!momentum && !average) continue;
    const bool bias = tensor.name.ends_with(".balancing_biases");
    const float decay = momentum ? 0.95f : 0.9f;
    const std::vector<float> was = stored(before, tensor.name);
    const std::vector<float> with = stored(given, tensor.name);
    const std::vector<float> without = stored(fresh, tensor.name);
    float largest = 0;
    for (const float value : was) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < was.size(); ++i) {
      // Rounding of one sum of both terms.
      const float tolerance = 1e-6f * (largest + std::abs(without[i])) + 1e-12f;
      ASSERT_NEAR(with[i] - without[i], decay * was[i], tolerance) << tensor.name;
    }
    compared += !bias && largest > 0;
  }
  EXPECT_GT(compared, 20);
}

TEST(Init, ARunThatWasGivenItsOptimizerResumesToTheBit) {
  const Lab lab;
  train(lab.options("first"));
  const std::string init = step_of(lab.out("first"), 12).string();
  TrainOptions whole = lab.options("whole", {kGiven});
  whole.init = init;
  train(whole);
  TrainOptions parts = lab.options("parts", {kGiven});
  parts.init = init;
  parts.steps = 5;
  train(parts);
  parts = lab.options("parts");  // neither the model nor how it was taken need be named again
  train(parts);
  EXPECT_EQ(fingerprint(step_of(lab.out("parts"), 12)), fingerprint(step_of(lab.out("whole"), 12)));
}

TEST(Init, StateThatIsNotThereIsRefusedBeforeAnythingIsWritten) {
  const Lab lab;
  TrainOptions first = lab.options("first");
  first.steps = 1;
  const TrainReport report = train(first);
  const fs::path imported = lab.folder / "imported";
  checkpoint::import_opened(checkpoint::open_model(report.model), imported);
  const auto refused = [&](const std::optional<std::string>& init, const std::string& word,
                           std::vector<std::string> overrides) {
    overrides.emplace_back(kGiven);
    TrainOptions options = lab.options("refused", std::move(overrides));
    options.init = init;
    test::expect_error(ExitCode::kUsage, {"run.init_optimizer", word}, [&] { train(options); });
    EXPECT_FALSE(fs::exists(lab.out("refused")));
  };
  refused(report.model.string(), "no optimizer state", {});
  refused(imported.string(), "no optimizer state", {});
  refused(std::nullopt, "--init", {});
  refused(report.checkpoint.string(), "\"muon\"", {"optimizer.kind=adamw"});
  // The whole run stands for its latest checkpoint.
  EXPECT_EQ(applied_steps(first_step(lab, "from a run", lab.out("first"), {kGiven})), 2);
}

TEST(Init, AnImportedModelIsNoRunToGoOnWith) {
  const Lab lab;
  TrainOptions first = lab.options("first");
  first.steps = 1;
  const fs::path imported = lab.folder / "imported";
  checkpoint::import_opened(checkpoint::open_model(train(first).model), imported);
  TrainOptions options = lab.options("second");
  options.resume = imported.string();
  test::expect_error(ExitCode::kUsage, {"imported", "--init"}, [&] { train(options); });
  options.resume = "auto";
  options.init = imported.string();
  options.steps = 2;
  EXPECT_EQ(train(options).step, 2);
}

/// A model with a tokenizer, straight and through an import, starts a run whose config names another tokenizer: the model's stays,
/// file for file.
void expect_tokenizer_kept(const Lab& lab, std::vector<std::string> overrides,
                           const std::string& file) {
  TrainOptions options = lab.options("first", std::move(overrides));
  options.steps = 1;
  const TrainReport first = train(options);
  ASSERT_TRUE(fs::exists(first.model / file));
  const fs::path imported = lab.folder / "imported";
  checkpoint::import_opened(checkpoint::open_model(first.model), imported);
  const fs::path legacy = lab.folder / "legacy";
  checkpoint::export_opened(checkpoint::open_model(imported), legacy,
                            {.layout = checkpoint::Layout::kLegacy, .dtype = DType::kF32});
  for (const fs::path& init : {first.model, first.checkpoint, imported, legacy}) {
    TrainOptions second = lab.options("from " + init.filename().string());
    second.init = init.string();
    second.steps = 1;
    const TrainReport report = train(second);
    for (const fs::path& place : {report.model, report.checkpoint}) {
      for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"}) {
        ASSERT_EQ(fs::exists(place / name), fs::exists(first.model / name)) << place << name;
        if (!fs::exists(place / name)) continue;
        EXPECT_EQ(read(place / name), read(first.model / name)) << place << name;
      }
    }
    EXPECT_EQ(data::load_tokenizer(report.model)->identity(),
              data::load_tokenizer(first.model)->identity());
  }
}

TEST(Init, ASentencePieceTokenizerIsKept) {
  expect_tokenizer_kept(Lab(), {"tokenizer.kind=unigram", "tokenizer.vocab=290"},
                        "tokenizer.model");
}

TEST(Init, AHuggingFaceTokenizerIsKept) {
  const auto folder = test::golden_folder("tokenizers/metaspace-first");
  if (!folder) GTEST_SKIP() << test::golden_absent("tokenizers/metaspace-first");
  expect_tokenizer_kept(
      Lab(), {"tokenizer.kind=file", "tokenizer.path=" + (*folder / "tokenizer.json").string()},
      "tokenizer.json");
}

TEST(Init, AModelWithoutATokenizerIsNotGivenAnotherInSilence) {
  const Lab lab;
  TrainOptions options = lab.options("first", {"tokenizer.kind=byte-level", "tokenizer.vocab=290"});
  options.steps = 1;
  const fs::path model = train(options).model;
  for (const bool without : {false, true}) {
    if (without) {
      fs::remove(model / "tokenizer.json");
      fs::remove(model / "tokenizer_config.json");
    }
    TrainOptions second = lab.options(without ? "without" : "with",
                                      {"tokenizer.kind=byte-level", "tokenizer.vocab=290"});
    second.init = model.string();
    second.steps = 1;
    ::testing::internal::CaptureStderr();
    train(second);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("holds no tokenizer") != std::string::npos, without) << said;
  }
}

}  // namespace
}  // namespace athanor::train
