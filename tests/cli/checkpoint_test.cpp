// athanor checkpoint, through the program.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "infer/tiny_model.h"
#include "support/program.h"
#include "support/small_disk.h"

namespace athanor::test {
namespace {

using nlohmann::json;

class CheckpointVerb : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::string run_ = folder_ / "run";

  /// A checkpoint of random weights under run/checkpoints.
  std::string save(int64_t step) {
    Arena values("values");
    values.reserve(size_t{64} << 20);
    model::Parameters parameters(text_config(), ops::Precision::kFp32, values);
    model::randomise(parameters, static_cast<uint64_t>(step));
    std::vector<checkpoint::SideFile> files;
    for (auto& [name, content] : data::make_byte_tokenizer()->files()) {
      files.push_back({name, content});
    }
    const fs::path checkpoints = fs::path(run_) / "checkpoints";
    fs::create_directories(checkpoints);
    checkpoint::CheckpointInfo info;
    info.step = step;
    return checkpoint::save_checkpoint(checkpoints, info, text_config(),
                                       checkpoint::slices_of(parameters), files);
  }

  Outcome verb(const std::string& name, const std::vector<std::string>& rest) {
    std::vector<std::string> command = {"checkpoint", name};
    command.insert(command.end(), rest.begin(), rest.end());
    return athanor(command);
  }
  Outcome generate(const std::string& model) {
    return athanor(
        {"generate", model, "--prompt", "ab", "--max-tokens", "9", "--precision", "fp32"});
  }
};

TEST_F(CheckpointVerb, InspectsAndVerifies) {
  const std::string step = save(12);
  const Outcome inspected = verb("inspect", {step, "--json"});
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_EQ(json::parse(inspected.out).at("step"), 12);
  const Outcome text = verb("inspect", {run_});
  EXPECT_NE(text.out.find("step 12, 1 rank, "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("model.embed_tokens.weight"), std::string::npos);
  EXPECT_EQ(verb("verify", {step}).code, 0);
  const Outcome of_run = verb("verify", {run_});
  EXPECT_EQ(of_run.code, 0) << of_run.err;
  EXPECT_NE(of_run.out.find("step-00000012"), std::string::npos) << of_run.out;
}

TEST_F(CheckpointVerb, OneFlippedByteAnywhereIsFound) {
  const fs::path step = save(3);
  for (const auto& entry : fs::directory_iterator(step)) {
    const std::string whole = read_file(entry.path());
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 7) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      write_file_atomically(entry.path(), flipped);
      expect_refusal(verb("verify", {step}), 3, entry.path().filename().string());
    }
    write_file_atomically(entry.path(), whole);
  }
  EXPECT_EQ(verb("verify", {step}).code, 0);
}

TEST_F(CheckpointVerb, ExportsAModelThatSpeaksAlike) {
  const std::string step = save(5);
  const std::string model = folder_ / "exported";
  const Outcome exported = verb("export", {step, model, "--dtype", "fp32"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(fs::path(model) / "tokenizer_config.json"));
  const Outcome own = generate(step);
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(generate(model).out, own.out);
  EXPECT_EQ(generate(run_).out, own.out);

  const std::string half = folder_ / "half";
  ASSERT_EQ(verb("export", {run_, half}).code, 0);
  EXPECT_LT(fs::file_size(fs::path(half) / "model.safetensors"),
            fs::file_size(fs::path(model) / "model.safetensors"));
  EXPECT_EQ(generate(half).code, 0);
}

TEST_F(CheckpointVerb, EveryFormOfAModelSpeaksAlikeAndIsEqual) {
  const std::string step = save(5);
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  const auto done = [&](const std::string& name, const std::vector<std::string>& rest) {
    const Outcome outcome = verb(name, rest);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(rest[1] + " now holds "), std::string::npos) << outcome.out;
  };
  done("export",
       {step, at("legacy"), "--layout", "legacy", "--dtype", "fp32", "--shard-size", "20KB"});
  EXPECT_TRUE(fs::exists(folder_ / "legacy/model.safetensors.index.json"));
  done("import", {at("legacy"), at("imported")});
  done("export", {at("imported"), at("native"), "--dtype", "fp32"});
  done("export", {at("native"), at("again"), "--layout", "legacy"});
  EXPECT_EQ(verb("verify", {at("imported")}).code, 0);
  const std::string said = generate(step).out;
  for (const char* name : {"legacy", "imported", "native", "again"}) {
    EXPECT_EQ(generate(at(name)).out, said) << name;
    const Outcome difference = verb("diff", {step, at(name), "--json"});
    EXPECT_EQ(difference.code, 0) << difference.err;
    EXPECT_EQ(json::parse(difference.out).at("equal"), true) << difference.out;
  }
  done("export", {at("native"), at("half"), "--dtype", "bf16"});
  const Outcome difference = verb("diff", {at("legacy"), at("half")});
  EXPECT_EQ(difference.code, 0);
  EXPECT_NE(difference.out.find("equal when rounded to bf16"), std::string::npos) << difference.out;
  EXPECT_NE(generate(at("half")).out, "");
}

TEST_F(CheckpointVerb, ImportRefusesInOneLineAndLeavesNothing) {
  const std::string model = write_model(folder_ / "model", text_config());
  const std::string out = folder_ / "deep/imported";
  expect_refusal(verb("import", {folder_ / "absent", out}), 3, "absent");
  expect_refusal(verb("import", {folder_.path(), out}), 3, "not a model directory");
  fs::resize_file(fs::path(model) / "model.safetensors", 5000);
  expect_refusal(verb("import", {model, out}), 3, "model.safetensors");
  EXPECT_FALSE(fs::exists(folder_ / "deep"));
  expect_refusal(verb("export", {model, out, "--shard-size", "big"}), 2, "'big'");
  expect_refusal(verb("export", {model, out, "--layout", "old"}), 2, "old");
  expect_refusal(verb("diff", {model, folder_ / "absent"}), 3, "absent");
}

TEST_F(CheckpointVerb, AFullDiskLeavesNothingOfAnImport) {
  const std::string model = write_model(folder_ / "model", text_config());
  const SmallDisk disk(int64_t{1} << 20);
  if (!disk.mounted()) GTEST_SKIP() << kFullDiskNotTried;
  const uintmax_t weights = fs::file_size(fs::path(model) / "model.safetensors");
  const uintmax_t room = fs::space(disk.path()).available;
  for (const uintmax_t left : {uintmax_t{0}, weights / 2, weights}) {
    write_file_atomically(disk.path() / "filler", std::string(room - left, 'x'));
    for (const char* layout : {"native", "legacy"}) {
      expect_refusal(verb("export", {model, disk.path() / "new" / "model", "--layout", layout}), 6,
                     "No space left");
    }
    expect_refusal(verb("import", {model, disk.path() / "new" / "imported"}), 6, "No space left");
    size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(disk.path())) ++entries;
    EXPECT_EQ(entries, 1u) << "the filler";
    fs::remove(disk.path() / "filler");
  }
  EXPECT_EQ(generate(model).code, 0);
}

TEST_F(CheckpointVerb, ADamagedNewestCheckpointIsPassedOverWithAWarning) {
  const std::string older = save(5);
  const fs::path newer = save(6);
  const std::string expected = generate(older).out;
  EXPECT_NE(generate(newer).out, expected);
  const std::string manifest = read_file(newer / "manifest.json");
  write_file_atomically(newer / "manifest.json", manifest.substr(0, manifest.size() / 2));
  const Outcome outcome = generate(run_);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, expected);
  EXPECT_NE(outcome.err.find("step-00000006"), std::string::npos) << outcome.err;
  expect_refusal(generate(newer), 3, "manifest.json");
  // What only reads weights makes do with the older one; who asks for proof hears of the damage.
  expect_refusal(verb("verify", {run_}), 3, "step-00000006");
}

TEST_F(CheckpointVerb, RefusesWhatIsNoCheckpoint) {
  expect_refusal(verb("verify", {folder_ / "absent"}), 3, "absent");
  fs::create_directories(folder_ / "young/checkpoints");
  expect_refusal(verb("verify", {folder_ / "young"}), 3, "no checkpoint in it yet");
  expect_refusal(verb("inspect", {folder_.path()}), 3, "");
  const std::string model = write_model(folder_ / "model", text_config());
  expect_refusal(verb("inspect", {model}), 3, "model directory");
  expect_refusal(verb("export", {save(1), folder_ / "x", "--dtype", "fp16"}), 2, "fp16");
  const fs::path other = folder_.write("file", "not a folder");
  expect_refusal(verb("export", {run_, other}), 2, "file");
}

TEST_F(CheckpointVerb, ExportReplacesModelsAloneAndLosesNothing) {
  const std::string step = save(5);
  const fs::path foreign = folder_ / "foreign";
  fs::create_directories(foreign / "deeper");
  expect_refusal(verb("export", {step, foreign}), 2, "deeper");
  EXPECT_TRUE(fs::is_empty(foreign / "deeper"));
  fs::remove(foreign / "deeper");
  write_file_atomically(foreign / "thesis.tex", "years of work");
  write_file_atomically(foreign / "config.json", "{}");
  expect_refusal(verb("export", {step, foreign}), 2, "thesis.tex");
  EXPECT_EQ(read_file(foreign / "thesis.tex"), "years of work");
  EXPECT_EQ(read_file(foreign / "config.json"), "{}");
  fs::remove(foreign / "thesis.tex");
  EXPECT_EQ(verb("export", {step, foreign}).code, 0);
  expect_refusal(verb("export", {step, step}), 2, "the model that is read");
  EXPECT_EQ(verb("verify", {step}).code, 0);
}

TEST_F(CheckpointVerb, ExportOntoAFullDiskLeavesTheOldModel) {
  const std::string step = save(5);
  const SmallDisk disk(int64_t{1} << 20);
  if (!disk.mounted()) GTEST_SKIP() << kFullDiskNotTried;
  const fs::path model = disk.path() / "model";
  ASSERT_EQ(verb("export", {step, model}).code, 0);
  const std::string before = generate(model).out;
  const uintmax_t weights = fs::file_size(model / "model.safetensors");
  const uintmax_t room = fs::space(disk.path()).available;
  ASSERT_GT(room, weights);
  write_file_atomically(disk.path() / "filler", std::string(room - weights / 2, 'x'));
  expect_refusal(verb("export", {step, model}), 6, "No space left");
  expect_refusal(verb("export", {step, disk.path() / "new" / "model"}), 6, "No space left");
  EXPECT_EQ(generate(model).out, before);
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(disk.path())) ++entries;
  EXPECT_EQ(entries, 2u) << "the model and the filler";
}

}  // namespace
}  // namespace athanor::test
