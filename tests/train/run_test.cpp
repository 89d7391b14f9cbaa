// Whole runs: learning, the same bits after any stop, what lies in the run directory.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/open_model.h"
#include "data/documents.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "data/tokenizer_train.h"
#include "support/golden.h"
#include "train/config.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TEST(Run, LearnsAndLeavesACompleteDirectory) {
  const Lab lab;
  const TrainReport report = train(lab.options("run", {"phases.0.tokens=30720"}));
  EXPECT_EQ(report.step, 120);
  EXPECT_EQ(report.steps, 120);
  const auto metrics = read_lines(report.directory / "metrics.jsonl");
  ASSERT_EQ(metrics.size(), 120u);
  EXPECT_GT(metrics.front()["loss"], 5.3) << "ln 258 is 5.55";
  EXPECT_LT(metrics.back()["loss"], 1.6);
  EXPECT_LT(metrics.back()["validation"]["bits_per_byte"], 2.4);
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i]["step"], i + 1);
    EXPECT_EQ(metrics[i]["tokens"], (i + 1) * 256);
    EXPECT_EQ(metrics[i]["experts"].size(), 2u);
    EXPECT_GT(metrics[i]["tokens_per_second"], 0);
    EXPECT_GT(metrics[i]["ceiling_share"], 0);
    EXPECT_EQ(metrics[i].contains("validation"), (i + 1) % 5 == 0) << i;
    const auto batches = static_cast<double>(i + 1);
    EXPECT_NEAR(metrics[i]["epochs"], batches * metrics[0]["epochs"].get<double>(), 1e-9);
    EXPECT_GT(metrics[i]["epochs"], 0);
  }
  EXPECT_EQ(to_toml(read_config(report.directory / "config.toml", {})),
            read(report.directory / "config.toml"));
  EXPECT_TRUE(fs::exists(report.directory / "heldout.jsonl"));
  const auto model = checkpoint::open_model(report.model);
  EXPECT_EQ(model.config.vocab, 258);
  EXPECT_EQ(model.config.eos, 257);
  EXPECT_EQ(data::load_tokenizer(report.model)->vocab_size(), 258);
  EXPECT_NE(to_text(report).find("athanor generate"), std::string::npos);
  // checkpoint.keep newest ones stay.
  size_t checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(report.directory / "checkpoints")) {
    checkpoints += checkpoint::is_checkpoint(entry.path()) ? 1 : 0;
  }
  EXPECT_EQ(checkpoints, 3u);
}

TEST(Run, StopAndResumeGiveTheBitsOfAnUnbrokenRun) {
  const Lab lab;
  const TrainReport whole = train(lab.options("whole"));
  ASSERT_EQ(whole.step, 12);
  TrainOptions options = lab.options("parts");
  for (const int64_t stop : {3, 7, 8}) {
    options.steps = stop;
    EXPECT_EQ(train(options).step, stop);
  }
  options.steps.reset();
  const TrainReport parts = train(options);
  EXPECT_EQ(parts.step, 12);
  EXPECT_EQ(fingerprint(parts.checkpoint), fingerprint(whole.checkpoint));
  EXPECT_EQ(steady_metrics(parts.directory), steady_metrics(whole.directory));
  EXPECT_TRUE(read_lines(whole.directory / "metrics.jsonl").back().contains("validation"))
      << "the last step is validated whatever the interval";
  EXPECT_EQ(read(parts.model / "model.safetensors"), read(whole.model / "model.safetensors"));
}

TEST(Run, Bf16ResumesByBitToo) {
  const Lab lab;
  const std::vector<std::string> bf16 = {"precision=bf16",
                                         "optimizer.newton_schulz_precision=bf16"};
  const TrainReport whole = train(lab.options("whole", bf16));
  TrainOptions options = lab.options("parts", bf16);
  options.steps = 5;
  train(options);
  options.steps.reset();
  EXPECT_EQ(fingerprint(train(options).checkpoint), fingerprint(whole.checkpoint));
}

TEST(Run, BitsDoNotDependOnThreads) {
  const Lab lab;
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string name = precision;
    std::vector<std::map<std::string, std::string>> results;
    for (const char* threads : {"1", "2", "3"}) {
      const TrainOptions options = lab.options(name + threads, {"precision=" + name});
      std::string errors;
      ASSERT_EQ(run_child(options, &errors, {std::string("OMP_NUM_THREADS=") + threads}), 0)
          << errors;
      results.push_back(fingerprint(lab.out(name + threads) / "checkpoints" / "step-00000012"));
    }
    EXPECT_EQ(results[0], results[1]) << name;
    EXPECT_EQ(results[0], results[2]) << name;
  }
}

TEST(Run, SlowerKernelsThanTheMachineHasAreAnEventAndAWarning) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 2;
  std::string errors;
  ASSERT_EQ(run_child(options, &errors, {"ATHANOR_ISA=reference"}), 0) << errors;
  const std::string reason = "ATHANOR_ISA=reference, and this machine has ";
  const size_t at = errors.find("warning: all ops run the reference kernels: " + reason);
  EXPECT_NE(at, std::string::npos) << errors;
  EXPECT_EQ(errors.find("reference kernels", at + 40), std::string::npos) << errors;
  int events = 0;
  for (const auto& event : read_lines(lab.out("run") / "events.jsonl")) {
    if (event["event"] != "slower kernels") continue;
    ++events;
    EXPECT_EQ(event["op"], "all ops");
    EXPECT_EQ(event["kernels"], "reference");
    EXPECT_TRUE(event["reason"].get<std::string>().starts_with(reason)) << event;
  }
  EXPECT_EQ(events, 1);

  ASSERT_EQ(run_child(lab.options("fast"), &errors), 0);
  for (const std::string& name : event_names(lab.out("fast"))) EXPECT_NE(name, "slower kernels");
}

double first_loss(const TrainOptions& options) {
  train(options);
  return read_lines(options.out / "metrics.jsonl").front()["loss"];
}

TEST(Run, TheSeedDrawsTheWeightsAndTheOrderOfTheData) {
  const Lab lab;
  TrainOptions options = lab.options("first");
  options.steps = 1;
  const fs::path model = train(options).model;
  const auto with_seed = [&](const std::string& out, const char* seed) {
    TrainOptions seeded = lab.options(out, {std::string("seed=") + seed});
    seeded.steps = 1;
    return seeded;
  };
  // From one model only the order can differ.
  TrainOptions one = with_seed("order 1", "1"), two = with_seed("order 2", "2");
  one.init = two.init = model.string();
  EXPECT_NE(first_loss(one), first_loss(two));
  // From a text of one sample only the weights can.
  write(lab.folder / "short.txt", make_text(1).substr(0, 40));
  one = with_seed("weights 1", "1"), two = with_seed("weights 2", "2");
  one.data = two.data = (lab.folder / "short.txt").string();
  EXPECT_NE(first_loss(one), first_loss(two));
}

TEST(Run, TheHeldOutSeedChoosesTheDocuments) {
  const Lab lab;
  std::vector<std::string> held_out;
  for (const char* seed : {"1", "2", "2"}) {
    const std::string out = "run" + std::to_string(held_out.size());
    TrainOptions options = lab.options(out, {std::string("data.heldout_seed=") + seed});
    options.steps = 1;
    train(options);
    held_out.push_back(read(lab.out(out) / "heldout.jsonl"));
  }
  EXPECT_NE(held_out[0], held_out[1]);
  EXPECT_EQ(held_out[1], held_out[2]);
}

TEST(Run, HeldOutDocumentsAreNeitherTrainedOnNorSeenByTheTokenizer) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"tokenizer.kind=byte-level", "tokenizer.vocab=290"});
  options.steps = 1;
  train(options);
  std::vector<std::string> held_out, trained;
  const auto apart = data::DocumentFiles(lab.out("run") / "heldout.jsonl").read();
  for (data::Document document; apart->next(document);) held_out.push_back(document.text);
  ASSERT_FALSE(held_out.empty());
  const auto all = data::DocumentFiles(lab.folder / "text.txt").read();
  for (data::Document document; all->next(document);) {
    if (std::find(held_out.begin(), held_out.end(), document.text) == held_out.end()) {
      trained.push_back(document.text);
    }
  }
  const auto rest = data::read_texts(trained);
  const auto tokenizer = data::train_tokenizer(*rest, {.vocab_size = 290}, Threads(1));
  EXPECT_EQ(data::load_tokenizer(lab.out("run") / "tokenizer")->identity(), tokenizer->identity());
  const auto stream = data::open_pack(lab.out("run") / "shards");
  EXPECT_EQ(stream->documents(), trained.size());
}

TEST(Run, EveryPackedDocumentBeginsWithBosWhereTheConfigSaysSo) {
  const Lab lab;
  for (const bool bos : {false, true}) {
    const std::string out = bos ? "with" : "without";
    TrainOptions options = lab.options(out, {bos ? "data.bos=true" : "data.bos=false"});
    options.steps = 1;
    train(options);
    const auto stream = data::open_pack(lab.out(out) / "shards");
    for (uint64_t d = 0; d < stream->documents(); ++d) {
      std::vector<int32_t> first(1), last(1);
      stream->read(stream->document_begin(d), first);
      stream->read(stream->document_begin(d + 1) - 1, last);
      EXPECT_EQ(first[0] == 256, bos) << d;
      EXPECT_EQ(last[0], 257) << d;
    }
  }
}

TEST(Run, PhasesRampAndSourcesResumeByBit) {
  const Lab lab;
  write(lab.folder / "other.txt", make_text(30, 5));
  std::string config = small_config() + R"(
[[batch.ramp]]
tokens = 0
sequences = 4
[[batch.ramp]]
tokens = 400
sequences = 8
[[phases]]
name = "longer"
tokens = 2048
sequence = 64
theta = 1e5
learning_rate = 3e-3
)";
  config += "sources = [{path = \"" + (lab.folder / "text.txt").string() +
            "\", weight = 1}, {path = \"" + (lab.folder / "other.txt").string() +
            "\", weight = 2}]\n";
  write(lab.folder / "small.toml", config);
  const TrainReport whole = train(lab.options("whole"));
  TrainOptions options = lab.options("parts");
  for (const int64_t stop :
       {2, 14, 16}) {  // before the ramp, at the phase's edge, inside the second phase
    options.steps = stop;
    train(options);
  }
  options.steps.reset();
  const TrainReport parts = train(options);
  EXPECT_EQ(parts.step, whole.step);
  EXPECT_EQ(fingerprint(parts.checkpoint), fingerprint(whole.checkpoint));
  EXPECT_EQ(steady_metrics(parts.directory), steady_metrics(whole.directory));
  const auto lines = read_lines(whole.directory / "metrics.jsonl");
  EXPECT_EQ(lines.back()["phase"], "longer");
  EXPECT_EQ(lines.back()["learning_rate"], 3e-3);
  EXPECT_EQ(checkpoint::open_model(whole.model).config.theta, 1e5);
  EXPECT_EQ(checkpoint::Checkpoint::open(whole.checkpoint).config().theta, 1e5);
}

TEST(Run, StepsNeverAlterASchedule) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 6;
  train(options);
  train(lab.options("whole"));
  const auto part = steady_metrics(lab.out("run"));
  const auto whole = steady_metrics(lab.out("whole"));
  ASSERT_EQ(part.size(), 6u);
  EXPECT_EQ(part, std::vector(whole.begin(), whole.begin() + 6));
  options.steps = 4;
  EXPECT_THROW(train(options), Error) << "six steps are done";
}

TEST(Run, ChangedLearningRatesAreAnEventAndHold) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  train(options);
  options.steps = 6;
  options.overrides = {"phases.0.learning_rate=0.004"};
  train(options);
  const auto lines = read_lines(lab.out("run") / "metrics.jsonl");
  EXPECT_LT(lines[4]["learning_rate"], 0.0041);
  bool found = false;
  for (const auto& event : read_lines(lab.out("run") / "events.jsonl")) {
    found |= event["event"] == "config changed" && event["key"] == "phases.0.learning_rate" &&
             event["before"] == "0.01" && event["after"] == "0.004";
  }
  EXPECT_TRUE(found);
}

TEST(Run, InitContinuesFromAModelWithFreshState) {
  const Lab lab;
  const TrainReport first = train(lab.options("first", {"phases.0.tokens=15360"}));
  TrainOptions options = lab.options("second", {"optimizer.adamw_beta2=0.9"});
  options.init = first.model.string();
  train(options);
  // A run that moves nothing ends with the model that it began with.
  TrainOptions still = lab.options(
      "still", {"phases.0.tokens=256", "phases.0.warmup_steps=0", "phases.0.learning_rate=1e-30",
                "phases.0.final_learning_rate=1e-30", "optimizer.balancing_learning_rate=1e-30"});
  still.init = options.init;
  const TrainReport after = train(still);
  ASSERT_EQ(after.step, 1);
  const auto given = test::read_vectors(first.model / "model.safetensors");
  const auto begun = test::read_vectors(after.model / "model.safetensors");
  ASSERT_EQ(begun.size(), given.size());
  for (const auto& [name, values] : given) {
    EXPECT_LE(test::max_difference(begun.at(name).reals, values.reals), 1e-29) << name;
  }
  // The run goes on without naming the model again, and refuses another geometry.
  options.init.reset();
  EXPECT_EQ(train(options).step, 12);
  // It needs the model no more once it has a checkpoint.
  TrainOptions longer = lab.options("orphan");
  longer.init = (lab.out("orphan-model")).string();
  fs::copy(first.model, *longer.init);
  longer.steps = 2;
  train(longer);
  fs::remove_all(*longer.init);
  longer.steps.reset();
  EXPECT_EQ(train(longer).step, 12);
  TrainOptions other = lab.options("third", {"model.experts=4"});
  other.init = first.model.string();
  try {
    train(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("model.experts"), std::string::npos) << error.what();
  }
}

TEST(Run, PackedShardsAreReadWhereTheyLie) {
  const Lab lab;
  TrainOptions first = lab.options("first");
  first.steps = 2;
  train(first);
  TrainOptions options = lab.options("second");
  options.data = (lab.out("first") / "shards").string();
  options.steps = 2;
  train(options);
  EXPECT_FALSE(fs::exists(lab.out("second") / "shards"));
  EXPECT_EQ(steady_metrics(lab.out("second")), steady_metrics(lab.out("first")));
  // Shards of another tokenizer are refused.
  TrainOptions other = lab.options("third", {"tokenizer.kind=bpe", "tokenizer.vocab=300"});
  other.data = options.data;
  try {
    train(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
  }
}

TEST(Run, GoesOnWithItsDataWhenNoneIsNamed) {
  const Lab lab;
  TrainOptions first = lab.options("first");
  first.steps = 2;
  train(first);
  TrainOptions options = lab.options("second");
  options.data = (lab.out("first") / "shards").string();
  options.steps = 2;
  train(options);
  const std::string data = *options.data;
  options.data.reset();
  options.steps = 4;
  EXPECT_EQ(train(options).step, 4);
  EXPECT_EQ(read_config(lab.out("second") / "config.toml", {}).data.path, data);
}

TEST(Run, WithFewerTokensThanItHasTrainedIsRefusedAndStaysAsItIs) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 6;
  train(options);
  const std::string config = read(lab.out("run") / "config.toml");
  options = lab.options("run", {"phases.0.tokens=512"});
  try {
    train(options);
    FAIL() << "it went on behind its end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    EXPECT_NE(std::string(error.what()).find("2 steps, the run has done 6"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(read(lab.out("run") / "config.toml"), config);
}

TEST(Run, AnOlderRunGoesOnWithItsSentencePieceTokenizer) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"tokenizer.kind=unigram", "tokenizer.vocab=290"});
  options.steps = 2;
  train(options);
  const std::string identity = data::load_tokenizer(lab.out("run") / "tokenizer")->identity();
  // As a version wrote it that trained SentencePiece's BPE under that name.
  std::string config = read(lab.out("run") / "config.toml");
  const size_t at = config.find("\"unigram\"");
  ASSERT_NE(at, std::string::npos);
  write(lab.out("run") / "config.toml", config.replace(at, 9, "\"bpe\""));
  options = lab.options("run", {"tokenizer.kind=bpe", "tokenizer.vocab=290"});
  const TrainReport report = train(options);
  EXPECT_EQ(report.step, 12);
  EXPECT_EQ(data::load_tokenizer(report.model)->identity(), identity);
  EXPECT_EQ(data::load_tokenizer(report.model)->kind(), data::TokenizerKind::kUnigram);
}

TEST(Run, ATrainedTokenizerGoesIntoShardsCheckpointsAndModel) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"tokenizer.kind=byte-level", "tokenizer.vocab=290"});
  options.steps = 3;
  const TrainReport report = train(options);
  const std::string identity = data::load_tokenizer(report.directory / "tokenizer")->identity();
  for (const fs::path& place : {report.model, report.checkpoint, report.directory / "shards"}) {
    EXPECT_EQ(data::load_tokenizer(place)->identity(), identity) << place;
  }
  // Its shards are no data for a run with the byte tokenizer.
  TrainOptions other = lab.options("other");
  other.data = (report.directory / "shards").string();
  try {
    train(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("another tokenizer"), std::string::npos)
        << error.what();
  }
}

TEST(Run, ATimeBudgetIsFittedOnceAndKept) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"run.time_budget_seconds=2"});
  options.steps = 2;
  const TrainReport report = train(options);
  const Config fitted = read_config(report.directory / "config.toml", {});
  EXPECT_TRUE(fitted.run.tokens_fitted);
  EXPECT_NE(fitted.phases[0].tokens, 3072);
  options.steps = 4;
  EXPECT_EQ(train(options).steps, report.steps);
  EXPECT_EQ(read_config(report.directory / "config.toml", {}).phases[0].tokens,
            fitted.phases[0].tokens);
  // Measuring leaves no trace: the same tokens without a budget give the same bits.
  TrainOptions plain =
      lab.options("plain", {"phases.0.tokens=" + std::to_string(fitted.phases[0].tokens)});
  plain.steps = 4;
  const auto fingerprint_of = [](const TrainReport& r) { return fingerprint(r.checkpoint); };
  EXPECT_EQ(fingerprint_of(train(plain)),
            fingerprint(lab.out("run") / "checkpoints" / "step-00000004"));
}

TEST(Run, ABudgetThatIsKeptOnTheWayGivesTheBitsOfItsFinalConfig) {
  const Lab lab;
  const std::vector<std::string> wsd = {"phases.0.schedule=wsd", "phases.0.decay_share=0.5",
                                        "checkpoint.interval_steps=0",
                                        "validation.interval_steps=0"};
  std::vector<std::string> overrides = wsd;
  overrides.emplace_back("run.time_budget_seconds=3");
  const TrainReport kept = train(lab.options("kept", overrides));
  const Config final = read_config(kept.directory / "config.toml", {});
  overrides = wsd;
  overrides.push_back("phases.0.tokens=" + std::to_string(final.phases[0].tokens));
  const TrainReport plain = train(lab.options("plain", overrides));
  EXPECT_EQ(kept.step, plain.step);
  EXPECT_EQ(fingerprint(kept.checkpoint), fingerprint(plain.checkpoint));
  EXPECT_EQ(steady_metrics(kept.directory), steady_metrics(plain.directory));
}

TEST(Run, AFinishedRunThatIsStartedAgainAddsNoEventFile) {
  const Lab lab;
  const TrainOptions options = lab.options("run");
  train(options);
  const auto sizes = [&] {
    std::map<std::string, uintmax_t> found;
    for (const auto& entry : fs::directory_iterator(lab.out("run") / "tensorboard")) {
      found[entry.path().filename().string()] = entry.file_size();
    }
    return found;
  };
  const auto before = sizes();
  EXPECT_EQ(before.size(), 1u);
  EXPECT_EQ(train(options).step, 12);
  EXPECT_EQ(sizes(), before);
}

TEST(Run, TheBarOfAResumedRunCountsTheRunsSteps) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 8;
  train(options);
  options.steps.reset();
  std::string errors;
  EXPECT_EQ(run_child(options, &errors), 0);
  EXPECT_NE(errors.find("train 100 %  12/12 steps"), std::string::npos) << errors;
}

TEST(Run, DryRunWritesNothing) {
  const Lab lab;
  const std::string text = describe_training(lab.options("run"));
  EXPECT_NE(text.find("12 steps, 3072 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("activations"), std::string::npos);
  EXPECT_FALSE(fs::exists(lab.out("run")));
}

}  // namespace
}  // namespace athanor::train
