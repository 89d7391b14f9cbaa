#include "train/validation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/tokenizer.h"
#include "model/scoring.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

Config byte_config(const std::vector<std::string>& overrides) {
  Config config = parse_config(small_config(), "run.toml", overrides);
  config.model.vocab = 258;
  resolve_automatic(config);
  return config;
}

/// Documents of these lengths; the tokens of document d are all 10·(first + d).
std::shared_ptr<const data::TokenSource> source_of(const std::vector<uint64_t>& lengths,
                                                   int32_t first) {
  std::vector<int32_t> ids;
  std::vector<uint64_t> ends;
  for (size_t d = 0; d < lengths.size(); ++d) {
    ids.insert(ids.end(), lengths[d], 10 * (first + static_cast<int32_t>(d)));
    ends.push_back(ids.size());
  }
  return data::make_token_source(std::move(ids), std::move(ends));
}

TEST(Validation, ChargesDocumentsSpreadOverAllSourcesByTheirBytes) {
  const Config config = byte_config({"validation.documents=3"});
  Bench bench(config);
  const auto tokenizer = data::make_byte_tokenizer();
  // Of seven documents in two sources the 0th, the 2nd and the 4th: the second one of source two.
  const std::vector<std::shared_ptr<const data::TokenSource>> sources = {
      source_of({5, 40, 9}, 0), source_of({50, 21, 60, 70}, 3)};
  const Validation validation(config, *tokenizer, sources);
  ASSERT_FALSE(validation.empty());
  bench.workspace->model.refresh(*bench.ctx);
  const ValidationResult result =
      validation.run(*bench.ctx, bench.workspace->model, bench.arenas.activations, 32);
  EXPECT_EQ(result.tokens, 5 + 9 + 21);
  EXPECT_EQ(result.bytes, 5 + 9 + 21) << "a token source in memory counts a byte a token";

  const std::vector<std::vector<int32_t>> documents = {
      std::vector<int32_t>(5, 0), std::vector<int32_t>(9, 20), std::vector<int32_t>(21, 40)};
  const std::vector<std::span<const int32_t>> spans(documents.begin(), documents.end());
  double nats = 0;
  for (const model::DocumentScore& score :
       model::score_documents(*bench.ctx, bench.workspace->model, bench.arenas.activations, spans,
                              {.context = 32, .batch_tokens = 64})) {
    nats += score.nats;
  }
  EXPECT_NEAR(result.loss, nats / 35, 1e-9);
  EXPECT_NEAR(result.bits_per_byte, nats / 35 / std::log(2.0), 1e-9);
}

TEST(Validation, ALongDocumentCountsWithTheBytesOfWhatIsRead) {
  const Config config = byte_config({"validation.documents=1"});
  const auto tokenizer = data::make_byte_tokenizer();
  Bench bench(config);
  const std::vector<std::shared_ptr<const data::TokenSource>> sources = {source_of({9000}, 6)};
  const Validation validation(config, *tokenizer, sources);
  bench.workspace->model.refresh(*bench.ctx);
  const ValidationResult result =
      validation.run(*bench.ctx, bench.workspace->model, bench.arenas.activations, 32);
  EXPECT_EQ(result.tokens, 8192);
  EXPECT_EQ(result.bytes, 8192);
}

TEST(Validation, SeesTheWeightsThatItsStepLeft) {
  // A run that starts from the model another one left, and learns nothing, charges what that one charged last.
  const Lab lab;
  TrainOptions options = lab.options("learns", {"validation.interval_steps=1"});
  options.steps = 3;
  const TrainReport learnt = train(options);
  options = lab.options(
      "stays", {"validation.interval_steps=1", "phases.0.learning_rate=1e-30",
                "phases.0.final_learning_rate=1e-30", "optimizer.balancing_learning_rate=1e-30"});
  options.init = learnt.model.string();
  options.steps = 1;
  train(options);
  const auto charged = read_lines(lab.out("learns") / "metrics.jsonl");
  const auto again = read_lines(lab.out("stays") / "metrics.jsonl");
  EXPECT_NE(charged[1]["validation"]["loss"], charged[2]["validation"]["loss"]);
  EXPECT_EQ(again[0]["validation"], charged[2]["validation"]);
}

}  // namespace
}  // namespace athanor::train
