// A first start that is refused leaves no trace and decides nothing; one that came to nothing decides little.
#include <gtest/gtest.h>

#include "support/scratch.h"
#include "train/config.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

/// Expects `options` to be refused with `code` and `part`, and nothing at `out`.
void expect_no_trace(const TrainOptions& options, ExitCode code, const std::string& part) {
  test::expect_error(code, {part}, [&] { train(options); });
  EXPECT_FALSE(fs::exists(options.out)) << part;
}

Config config_of(const fs::path& run) { return read_config(run / "config.toml", {}); }

TEST(FirstStart, RefusedItLeavesNothingAndTheNextIsFree) {
  const Lab lab;
  TrainOptions options = lab.options("deep/er/run", {"model.vocab=10"});
  expect_no_trace(options, ExitCode::kUsage, "model.vocab");
  EXPECT_FALSE(fs::exists(lab.out("deep"))) << "parents that it made";
  // Refused later: once the tokenizer is trained, once the text is packed, by what is to be resumed, by memory.
  options.overrides = {"model.vocab=280", "tokenizer.kind=unigram", "tokenizer.vocab=290"};
  expect_no_trace(options, ExitCode::kUsage, "model.vocab");
  options.overrides = {"phases.0.sequence=100000", "batch.micro_batch=1"};
  expect_no_trace(options, ExitCode::kUsage, "more sequence than data");
  options.overrides = {"model.vocab=16000000", "model.hidden=1000000"};
  expect_no_trace(options, ExitCode::kResources, "memory");
  options.overrides.clear();
  options.resume = (lab.folder / "bogus").string();
  expect_no_trace(options, ExitCode::kData, "bogus");
  options.resume = "auto";
  EXPECT_EQ(train(options).step, 12);
  EXPECT_EQ(config_of(options.out).model.vocab, 258);
}

TEST(FirstStart, RefusedItLeavesAnEmptyFolderEmpty) {
  const Lab lab;
  const TrainOptions options = lab.options("run", {"model.vocab=10"});
  fs::create_directory(options.out);
  test::expect_error(ExitCode::kUsage, {"model.vocab"}, [&] { train(options); });
  EXPECT_TRUE(fs::is_empty(options.out));
  fs::create_directory(lab.out("foreign"));
  write(lab.out("foreign") / "thesis.tex", "years of work");
  test::expect_error(ExitCode::kUsage, {"no run"}, [&] { train(lab.options("foreign")); });
  EXPECT_FALSE(fs::exists(lab.out("foreign") / ".lock"));
}

TEST(FirstStart, TextThatWasTooShortIsReadAnewOnceItIsMended) {
  const Lab lab;
  const TrainOptions options = lab.options("run");
  write(lab.folder / "text.txt", "too short");
  expect_no_trace(options, ExitCode::kUsage, "more sequence than data");
  write(lab.folder / "text.txt", make_text(40));
  EXPECT_EQ(fingerprint(train(options).checkpoint),
            fingerprint(train(lab.options("whole")).checkpoint));
}

/// A run that was killed before its first checkpoint.
TrainOptions untrained(const Lab& lab, const std::vector<std::string>& overrides) {
  TrainOptions options = lab.options("run", overrides);
  options.steps = 2;
  train(options);
  fs::remove_all(options.out / "checkpoints");
  return options;
}

TEST(FirstStart, WhatItResolvedIsResolvedAnew) {
  const Lab lab;
  TrainOptions options = untrained(lab, {"model.vocab=300"});
  options.overrides.clear();
  train(options);
  EXPECT_EQ(config_of(options.out).model.vocab, 258);
}

TEST(FirstStart, OtherTextIsNotMistakenForWhatItPacked) {
  const Lab lab;
  TrainOptions options = untrained(lab, {});
  write(lab.folder / "other.txt", make_text(40, 8));
  options.data = (lab.folder / "other.txt").string();
  TrainOptions fresh = options;
  fresh.out = lab.out("fresh");
  EXPECT_EQ(fingerprint(train(options).checkpoint), fingerprint(train(fresh).checkpoint));
}

TEST(FirstStart, TheSameTextStaysPackedAndNeedsNoName) {
  const Lab lab;
  TrainOptions options = untrained(lab, {});
  const auto packed = fs::last_write_time(options.out / "shards" / "shard-00000.bin");
  options.data.reset();
  EXPECT_EQ(train(options).step, 2);
  EXPECT_EQ(fs::last_write_time(options.out / "shards" / "shard-00000.bin"), packed);
}

TEST(RefusedStart, LeavesTheConfigOfTheRunAsItWas) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  train(options);
  const std::string config = read(options.out / "config.toml");
  fs::rename(options.out / "shards", lab.out("shards"));
  options.steps.reset();
  options.overrides = {"phases.0.learning_rate=0.004"};
  write(lab.folder / "text.txt", "");
  test::expect_error(ExitCode::kData, {"text.txt"}, [&] { train(options); });
  EXPECT_EQ(read(options.out / "config.toml"), config);
  fs::rename(lab.out("shards"), options.out / "shards");
  options.overrides.clear();
  EXPECT_EQ(train(options).step, 12);
}

TEST(DamagedConfig, IsTheRunsOwnAndACheckpointBringsItBack) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  const fs::path checkpoint = train(options).checkpoint;
  const std::string whole = read(options.out / "config.toml");
  options.steps.reset();
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() / 2),
        whole + "[model]\nhidden = \n"}) {
    write(options.out / "config.toml", damaged);
    test::expect_error(ExitCode::kData, {"run/config.toml", "damaged", "--resume"},
                       [&] { train(options); });
    test::expect_error(ExitCode::kData, {"run/config.toml", "damaged"},
                       [&] { describe_training(options); });
    EXPECT_EQ(read(options.out / "config.toml"), damaged) << "it was touched";
  }
  options.resume = checkpoint.string();
  EXPECT_EQ(fingerprint(train(options).checkpoint),
            fingerprint(train(lab.options("whole")).checkpoint));
  EXPECT_EQ(read(options.out / "config.toml"), whole);
  const auto names = event_names(options.out);
  EXPECT_NE(std::find(names.begin(), names.end(), "config damaged"), names.end());
}

}  // namespace
}  // namespace athanor::train
