#include "train/config.h"

#include <gtest/gtest.h>

#include "train/lab.h"

namespace athanor::train {
namespace {

using testing::small_config;

Config parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "run.toml", overrides);
}

/// small_config with one line replaced.
std::string with(const std::string& line, const std::string& by) {
  std::string text = small_config();
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), by);
}

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parsed(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    return error.what();
  }
  return "accepted";
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                    const std::vector<std::string>& overrides = {}) {
  const std::string message = refusal(text, overrides);
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

TEST(Config, ReadsWhatTheFileSays) {
  const Config config = parsed(small_config());
  EXPECT_EQ(config.precision, NumberFormat::kFp32);
  EXPECT_EQ(config.seed, 3);
  EXPECT_EQ(config.model.hidden, 32);
  EXPECT_EQ(config.model.vocab, kAuto);
  EXPECT_EQ(config.tokenizer.kind, TokenizerKind::kBytes);
  ASSERT_EQ(config.phases.size(), 1u);
  EXPECT_EQ(config.phases[0].schedule, optim::ScheduleKind::kCosine);
  EXPECT_EQ(config.phases[0].learning_rate, 1e-2);
  EXPECT_EQ(config.optimizer.kind, optim::OptimizerKind::kMuon);
}

TEST(Config, TheKindOfTokenizerThatOlderFilesName) {
  EXPECT_EQ(parsed(with("kind = \"bytes\"", "kind = \"bpe\"")).tokenizer.kind,
            TokenizerKind::kByteLevel);
  EXPECT_EQ(parsed(with("kind = \"bytes\"\n", "")).tokenizer.kind, TokenizerKind::kByteLevel);
  expect_refused(small_config(), {"\"byte-fallback\", \"unigram\""}, {"tokenizer.kind=bpes"});
}

TEST(Config, WritesTomlThatReadsBackAsItself) {
  std::string text = small_config() + R"(
[[batch.ramp]]
tokens = 0
sequences = 4
[[batch.ramp]]
tokens = 1000
sequences = 8
[[phases]]
name = "second \"phase\" \\ \u00e4\t"
tokens = 100
sequence = 16
learning_rate = 0.1
sources = [{path = "a", weight = 0.3}, {path = "b", weight = 2}]
)";
  const Config config =
      parsed(text, {"model.layer_types=[\"full\", \"sliding\"]", "model.sliding_window=4",
                    "model.recompute=[1]", "optimizer.adamw_epsilon=1.2345678901234567e-9"});
  const std::string written = to_toml(config);
  const Config again = parsed(written);
  EXPECT_EQ(to_toml(again), written);
  EXPECT_EQ(again.phases[1].name, config.phases[1].name);
  EXPECT_EQ(again.phases[1].sources[1].path, "b");
  EXPECT_EQ(again.phases[1].sources[0].weight, 0.3);
  EXPECT_EQ(again.batch.ramp[1].tokens, 1000);
  EXPECT_EQ(again.model.layer_types, config.model.layer_types);
  EXPECT_EQ(again.model.recompute, std::vector<std::string>{"1"});
  EXPECT_EQ(again.optimizer.adamw_epsilon, 1.2345678901234567e-9);
  EXPECT_EQ(again.model.vocab, kAuto);
}

TEST(Config, APathThatNoConfigCanHoldIsRefusedByKey) {
  Config config = parsed(small_config());
  config.data.path = "caf\xe9.txt";
  try {
    to_toml(config);
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("data.path"), std::string::npos) << error.what();
  }
}

TEST(Config, AMisspeltKeyNamesPlaceAndNearest) {
  expect_refused(with("hidden = 32", "hiden = 32"), {"run.toml:6", "model.hiden", "model.hidden"});
  expect_refused(with("warmup_steps = 2", "warmup = 2"), {"phases.0.warmup", "warmup_steps"});
  expect_refused(with("[optimizer]", "[optimiser]"),
                 {"optimiser.newton_schulz_precision", "optimizer.newton_schulz_precision"});
  expect_refused(small_config(), {"--set model.layer", "model.layers"}, {"model.layer=3"});
}

TEST(Config, AWrongTypeNamesKeyAndWhatIsNeeded) {
  expect_refused(with("hidden = 32", "hidden = \"32\""),
                 {"run.toml:6", "model.hidden", "a whole number is needed", "a string"});
  expect_refused(with("hidden = 32", "hidden = 32.0"), {"a whole number is needed"});
  expect_refused(with("seed = 3", "seed = [3]"), {"seed", "a list"});
  expect_refused(with("learning_rate = 1e-2", "learning_rate = true"),
                 {"phases.0.learning_rate", "a number is needed"});
  expect_refused(with("precision = \"fp32\"", "precision = 32"), {"precision", "\"bf16\""});
  expect_refused(with("precision = \"fp32\"", "precision = \"fp64\""), {"\"fp64\" is none of"});
  expect_refused(with("[[phases]]", "[phases]"), {"[[phases]]"});
  expect_refused(with("kind = \"bytes\"", "kind = \"bytes\"\nvocab = {a = 1}"),
                 {"unknown key 'tokenizer.vocab.a'"});
}

TEST(Config, NumbersOutOfRangeAreRefused) {
  expect_refused(with("layers = 2", "layers = 0"), {"model.layers", "at least 1"});
  expect_refused(with("learning_rate = 1e-2", "learning_rate = -1"), {"more than 0"});
  expect_refused(with("learning_rate = 1e-2", "learning_rate = nan"), {"out of range"});
  expect_refused(with("learning_rate = 1e-2", "learning_rate = inf"), {"out of range"});
  expect_refused(with("heldout = 0.1", "heldout = 0.6"), {"data.heldout"});
  expect_refused(with("tokens = 3072", "tokens = 9223372036854775807"), {"out of range"});
}

TEST(Config, SizesThatDoNotFitTogetherAreRefusedByName) {
  expect_refused(with("query_heads = 2", "query_heads = 3"),
                 {"run.toml", "model.query_heads is 3", "model.key_value_heads"});
  expect_refused(with("sequences = 8", "sequences = 7"), {"batch.sequences", "multiple"});
  expect_refused(with("reduction_groups = 2", "reduction_groups = 3"), {"power of two"});
  expect_refused(with("micro_batch = 2", "micro_batch = 3"), {"batch.micro_batch"});
  expect_refused(small_config(), {"max_positions"}, {"model.max_positions=16"});
  expect_refused(small_config(), {"layer_types", "2 layers"},
                 {"model.layer_types=[\"full\", \"full\", \"full\"]"});
  expect_refused(small_config(), {"model.sliding_window"}, {"model.layer_types=sliding"});
  expect_refused(small_config(), {"model.partial_rotary", "model.head_size", "even"},
                 {"model.partial_rotary=0.125"});
  expect_refused(small_config(), {"model.key_value_heads", "model.head_size", "odd"},
                 {"model.key_value_heads=1", "model.query_heads=1", "model.head_size=7"});
  expect_refused(small_config(), {"model.recompute", "from 0 to 1"}, {"model.recompute=[2]"});
  expect_refused(small_config(), {"tokenizer.path"}, {"tokenizer.kind=file"});
  expect_refused(
      small_config(), {"no machine can hold"},
      {"model.experts=16777216", "model.hidden=16777216", "model.expert_inner=16777216"});
  expect_refused(
      small_config(), {"batch.micro_batch", "that one pass takes"},
      {"batch.sequences=16777216", "batch.micro_batch=8388608", "phases.0.sequence=1024"});
}

TEST(Config, WhatIsMissingIsNamed) {
  expect_refused(with("hidden = 32\n", ""), {"model.hidden is missing"});
  expect_refused(with("tokens = 3072\n", ""), {"phases.0.tokens is missing"});
  expect_refused("[model]\nlayers = 1", {"is missing"});
  expect_refused("layers = = 1", {"run.toml:1"});
}

TEST(Config, OverridesTakeTomlOrBareWords) {
  const Config config =
      parsed(small_config(), {"optimizer.kind=adamw", "model.vocab=300", "phases.0.theta=1e6",
                              "data.path=some text.txt", "model.recompute=all"});
  EXPECT_EQ(config.optimizer.kind, optim::OptimizerKind::kAdamW);
  EXPECT_EQ(config.model.vocab, 300);
  EXPECT_EQ(config.phases[0].theta, 1e6);
  EXPECT_EQ(config.data.path, "some text.txt");
  expect_refused(small_config(), {"section.key=value"}, {"model.vocab"});
  expect_refused(small_config(), {"--set phases.1.theta", "list of 1"}, {"phases.1.theta=2"});
  expect_refused(small_config(), {"--set seed.x"}, {"seed.x=2"});
  expect_refused(small_config(), {"--set model.hidden"}, {"model.hidden=wide"});
}

TEST(Config, AutomaticMicroBatchDividesEveryGroup) {
  Config config = parsed(small_config(), {"batch.micro_batch=auto", "batch.sequences=24"});
  config.batch.ramp = {{0, 8}, {100, 24}};
  resolve_automatic(config);
  EXPECT_EQ(config.batch.micro_batch, 4) << "groups of 12, 4 and 12 sequences";
  EXPECT_EQ(config.model.max_positions, 32);
  config.batch.micro_batch = kAuto;
  config.phases[0].sequence = 4096;
  resolve_automatic(config);
  EXPECT_EQ(config.batch.micro_batch, 1) << "4,096 tokens are a micro-batch";
  config.batch.micro_batch = kAuto;
  config.phases[0].sequence = 1365;
  resolve_automatic(config);
  EXPECT_EQ(config.batch.micro_batch, 2) << "three would fit, but divide no group of 4";
}

TEST(Config, ARunThatGoesOnTakesLearningRatesAndRefusesGeometry) {
  const Config before = parsed(small_config());
  Config stored = before;
  stored.model.vocab = 258;  // as resolved
  EXPECT_TRUE(adopt_changes(stored, before, {}, "runs/x").empty());
  EXPECT_EQ(stored.model.vocab, 258) << "auto leaves what was resolved";

  const std::vector<std::string> rates = {"phases.0.learning_rate=0.005",
                                          "validation.interval_steps=7"};
  const auto changes = adopt_changes(stored, parsed(small_config(), rates), rates, "runs/x");
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].key, "phases.0.learning_rate");
  EXPECT_EQ(changes[0].before, "0.01");
  EXPECT_EQ(changes[0].after, "0.005");
  EXPECT_EQ(stored.phases[0].learning_rate, 0.005);

  for (const char* change : {"model.hidden=64", "seed=4", "precision=bf16", "batch.sequences=4",
                             "data.eos=false", "optimizer.muon_momentum=0.9", "phases.0.theta=5"}) {
    try {
      adopt_changes(stored, parsed(small_config(), {change}), {change}, "runs/x");
      ADD_FAILURE() << change << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      const std::string key(change, std::string(change).find('='));
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("runs/x"), std::string::npos) << error.what();
    }
  }
}

TEST(Config, TokensFittedToABudgetStayUnlessNamed) {
  const Config wanted = parsed(small_config(), {"run.time_budget_seconds=10"});
  Config stored = wanted;
  stored.run.tokens_fitted = true;
  stored.phases[0].tokens = 999'424;
  EXPECT_TRUE(adopt_changes(stored, wanted, {}, "runs/x").empty());
  EXPECT_EQ(stored.phases[0].tokens, 999'424);
  const std::vector<std::string> more = {"run.time_budget_seconds=10", "phases.0.tokens=2000000"};
  EXPECT_EQ(adopt_changes(stored, parsed(small_config(), more), more, "runs/x").size(), 1u);
  EXPECT_EQ(stored.phases[0].tokens, 2'000'000);
}

TEST(Config, EverySettingOfModelAndOptimizerIsRead) {
  const Config config = parse_config(
      testing::small_config(), "run.toml",
      {"model.vocab=300", "model.max_positions=99", "model.partial_rotary=1.0",
       "model.rms_norm_eps=1e-3", "model.sliding_window=7", "model.layer_types=alternating",
       "model.theta_sliding=77", "model.initializer_range=0.5", "phases.0.theta=5e5",
       "optimizer.kind=adamw", "optimizer.muon_momentum=0.5", "optimizer.newton_schulz_steps=3",
       "optimizer.newton_schulz_precision=bf16", "optimizer.weight_decay=0.25",
       "optimizer.adamw_beta1=0.625", "optimizer.adamw_beta2=0.75",
       "optimizer.adamw_epsilon=1e-5"});
  const model::ModelConfig model = model_config(config);
  EXPECT_EQ(model.vocab, 300);
  EXPECT_EQ(model.max_positions, 99);
  EXPECT_EQ(model.partial_rotary, 1.0);
  EXPECT_EQ(model.rms_norm_eps, 1e-3);
  EXPECT_EQ(model.sliding_window, 7);
  EXPECT_NE(model.layer_kinds[0], model.layer_kinds[1]);
  EXPECT_EQ(model.theta, 5e5);
  EXPECT_EQ(model.theta_sliding, 77);
  EXPECT_EQ(model.initializer_range, 0.5);
  const optim::OptimizerConfig optimizer = optimizer_config(config);
  EXPECT_EQ(optimizer.kind, optim::OptimizerKind::kAdamW);
  EXPECT_EQ(optimizer.muon_momentum, 0.5);
  EXPECT_EQ(optimizer.newton_schulz_steps, 3);
  EXPECT_EQ(optimizer.newton_schulz_dtype, DType::kBF16);
  EXPECT_EQ(optimizer.weight_decay, 0.25);
  EXPECT_EQ(optimizer.beta1, 0.625);
  EXPECT_EQ(optimizer.beta2, 0.75);
  EXPECT_EQ(optimizer.epsilon, 1e-5);
}

}  // namespace
}  // namespace athanor::train
