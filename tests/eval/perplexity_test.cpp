#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/safetensors.h"
#include "data/documents.h"
#include "data/tokenizer_train.h"
#include "infer/session.h"
#include "infer/tiny_model.h"
#include "model/scoring.h"

namespace athanor::eval {
namespace {

using test::ScratchFolder;

/// −ln p of tokens[first + 1 …] given tokens[begin …], one uncached pass over [begin, end − 1), softmax in double.
double nats_by_hand(infer::Session& session, const std::vector<int32_t>& tokens, int64_t begin,
                    int64_t end, int64_t first) {
  std::vector<int32_t> inputs(tokens.begin() + begin, tokens.begin() + end - 1);
  const auto count = static_cast<int64_t>(inputs.size());
  const std::array<int64_t, 2> begins = {0, count};
  double nats = 0;
  const infer::Work work = [&](ops::Context& ctx, model::Model& model, Arena& activations) {
    model::Statistics statistics;
    model.forward(ctx, activations, {Tensor::of(inputs.data(), {count}), {}, begins}, {},
                  statistics, /*want_logits=*/true,
                  [&](std::string_view name, const Tensor& logits) {
                    if (name != "logits" || ctx.planning()) return;
                    for (int64_t t = first - begin; t < count; ++t) {
                      const float* row = logits.row<float>(t);
                      double sum = 0;
                      for (int64_t v = 0; v < logits.cols(); ++v) sum += std::exp(double{row[v]});
                      nats += std::log(sum) - row[tokens[begin + t + 1]];
                    }
                  });
  };
  session.make_room(work);
  work(session.context(), session.model(), session.activations());
  return nats;
}

std::vector<int32_t> document(const std::string& text, bool bos) {
  std::vector<int32_t> ids;
  if (bos) ids.push_back(256);
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  ids.push_back(257);
  return ids;
}

infer::Session session_of(const fs::path& model) {
  return {infer::open_model_files(model), ops::Precision::kFp32, 64,
          [](ops::Context&, model::Model&, Arena&) {}};
}

TEST(Perplexity, EqualsAHandComputationWithAndWithoutBos) {
  const ScratchFolder folder;
  const std::vector<std::string> texts = {"In the beginning", "", "é",
                                          "a longer text of 32 bytes, no more"};
  std::string jsonl;
  for (const std::string& text : texts) jsonl += "{\"text\": \"" + text + "\"}\n";
  const fs::path data = folder.write("data.jsonl", jsonl);
  for (const bool bos : {true, false}) {
    const fs::path model =
        test::write_model(folder / "model", test::text_config(), {.seed = 5, .bos = bos});
    infer::Session session = session_of(model);
    double nats = 0;
    int64_t tokens = 0, bytes = 0;
    for (const std::string& text : texts) {
      const std::vector<int32_t> ids = document(text, bos);
      const auto count = static_cast<int64_t>(ids.size());
      if (!bos) nats += std::log(258.0);  // nothing predicts the first token
      if (count > 1) nats += nats_by_hand(session, ids, 0, count, 0);
      tokens += count - (bos ? 1 : 0);
      bytes += static_cast<int64_t>(text.size());
    }
    const Perplexity result =
        measure_perplexity({.model = model, .data = data, .precision = ops::Precision::kFp32});
    EXPECT_EQ(result.bos, bos);
    EXPECT_EQ(result.documents, 4);
    EXPECT_EQ(result.bytes, bytes);
    EXPECT_EQ(result.tokens, tokens);
    EXPECT_NEAR(result.nats, nats, 1e-5 * nats);
    EXPECT_NEAR(result.bits_per_byte, nats / std::log(2.0) / static_cast<double>(bytes), 1e-4);
    EXPECT_NEAR(result.perplexity, std::exp(nats / static_cast<double>(tokens)),
                1e-4 * result.perplexity);
    EXPECT_EQ(result.context, 64);
  }
}

TEST(Perplexity, CountsTextThatIsReadInPortions) {
  // Long words keep the tokens few: a portion is 4 MiB of text.
  const ScratchFolder folder;
  std::string words;
  for (int i = 0; i < 60; ++i) words += i % 3 == 0 ? "tremendousness. " : "interplanetary. ";
  const std::vector<std::string> sample(20, words);
  const auto documents = data::read_texts(sample);
  const auto tokenizer = data::train_tokenizer(*documents, {.vocab_size = 400}, Threads(1));
  model::ModelConfig config = test::text_config();
  config.vocab = tokenizer->vocab_size();
  config.bos = tokenizer->special().bos;
  config.eos = tokenizer->special().eos;
  Arena values("values");
  values.reserve(size_t{1} << 20);
  model::Parameters parameters(config, ops::Precision::kFp32, values);
  model::randomise(parameters, 3);
  std::vector<checkpoint::SideFile> files;
  for (auto& [name, content] : tokenizer->files()) files.push_back({name, content});
  checkpoint::export_model(folder / "model", config, checkpoint::weights_of(parameters), files,
                           {.dtype = DType::kF32});

  std::string jsonl;
  int64_t bytes = 0, count = 0;
  for (; bytes < (4 << 20) + 10'000; ++count) {
    jsonl += "{\"text\": \"" + words + "\"}\n";
    bytes += static_cast<int64_t>(words.size());
  }
  const int64_t tokens = count * (static_cast<int64_t>(tokenizer->encode(words).size()) + 1);
  const fs::path data = folder.write("data.jsonl", jsonl);
  const Perplexity result = measure_perplexity(
      {.model = folder / "model", .data = data, .precision = ops::Precision::kFp32});
  EXPECT_EQ(result.documents, count);
  EXPECT_EQ(result.bytes, bytes);
  EXPECT_EQ(result.tokens, tokens);
  EXPECT_NEAR(result.bits_per_byte, result.nats / std::log(2.0) / static_cast<double>(bytes), 1e-9);
  EXPECT_GT(result.nats / static_cast<double>(tokens), 1.0) << "random weights know nothing";
}

TEST(Perplexity, WindowsOfALongDocumentKeepHalfTheirContext) {
  const ScratchFolder folder;
  const std::string text = "a document that is longer than the context of eleven tokens";
  const fs::path data = folder.write("data.txt", text);
  const fs::path model = test::write_model(folder / "model", test::text_config(), {.bos = true});
  infer::Session session = session_of(model);
  const std::vector<int32_t> ids = document(text, true);
  const auto count = static_cast<int64_t>(ids.size());
  // Windows of 11 inputs that advance by 5; each charges what the one before did not reach.
  double nats = nats_by_hand(session, ids, 0, 12, 0);
  for (int64_t begin = 5, reached = 11; reached < count - 1; begin += 5) {
    const int64_t end = std::min(begin + 11, count - 1);
    nats += nats_by_hand(session, ids, begin, end + 1, reached);
    reached = end;
  }
  const Perplexity result = measure_perplexity(
      {.model = model, .data = data, .context = 11, .precision = ops::Precision::kFp32});
  EXPECT_NEAR(result.nats, nats, 1e-5 * nats);
  EXPECT_EQ(result.tokens, count - 1);
  const fs::path short_sighted =
      test::write_model(folder / "short", test::text_config(), {.bos = true, .sequence = 11});
  const Perplexity own = measure_perplexity(
      {.model = short_sighted, .data = data, .precision = ops::Precision::kFp32});
  EXPECT_EQ(own.context, 11) << "the longest sequence of its training";
  EXPECT_EQ(own.nats, result.nats);
  const Perplexity whole =
      measure_perplexity({.model = model, .data = data, .precision = ops::Precision::kFp32});
  EXPECT_GT(std::abs(whole.nats - nats), 1e-3) << "a longer context charges otherwise";
}

TEST(ScoringWindows, ChargeEveryTokenOnceWithHalfTheContextBehindIt) {
  RandomStream random(1, stream_of("windows"));
  for (int round = 0; round < 300; ++round) {
    const auto context = 1 + static_cast<int64_t>(random.below(20));
    std::vector<int64_t> lengths;
    for (int d = 0; d < 3; ++d) lengths.push_back(static_cast<int64_t>(random.below(90)));
    std::vector<std::vector<int>> charged;
    for (const int64_t n : lengths)
      charged.emplace_back(static_cast<size_t>(std::max<int64_t>(0, n - 1)));
    for (const model::ScoringWindow& w : model::scoring_windows(lengths, context)) {
      ASSERT_GE(w.length, 1);
      ASSERT_LE(w.length, context);
      ASSERT_LE(w.begin + w.length, lengths[w.document] - 1);
      for (int64_t i = w.charged_from; i < w.begin + w.length; ++i) {
        ++charged[w.document][i];
        ASSERT_GE(i - w.begin + 1, std::min(i + 1, (context + 1) / 2)) << "context " << context;
      }
    }
    for (const auto& document : charged) {
      for (const int times : document) ASSERT_EQ(times, 1);
    }
  }
}

TEST(ScoreDocuments, BatchesAndThreadsDoNotMatter) {
  const ScratchFolder folder;
  const fs::path model = test::write_model(folder / "model", test::text_config());
  std::vector<std::vector<int32_t>> documents;
  for (uint64_t d = 0; d < 9; ++d) {
    documents.push_back(model::random_ids(static_cast<int64_t>(1 + d * 17 % 40), 258, d));
  }
  const std::vector<std::span<const int32_t>> spans(documents.begin(), documents.end());
  std::vector<model::DocumentScore> first;
  for (const int64_t batch_tokens : {4096, 1, 50}) {
    const model::ScoringOptions options{.context = 12, .batch_tokens = batch_tokens};
    infer::Session session(infer::open_model_files(model), ops::Precision::kFp32, 12,
                           [&](ops::Context& ctx, model::Model& m, Arena& activations) {
                             model::score_documents(ctx, m, activations, spans, options);
                           });
    const auto scores = model::score_documents(session.context(), session.model(),
                                               session.activations(), spans, options);
    ASSERT_EQ(scores.size(), documents.size());
    if (first.empty()) first = scores;
    for (size_t d = 0; d < scores.size(); ++d) {
      EXPECT_EQ(scores[d].tokens, static_cast<int64_t>(documents[d].size()));
      EXPECT_NEAR(scores[d].nats, first[d].nats, 1e-5 * first[d].nats) << d;
    }
  }
}

TEST(ScoreDocuments, AForwardPassHasNoMoreTokensThanAsked) {
  const ScratchFolder folder;
  const fs::path model = test::write_model(folder / "model", test::text_config());
  std::vector<std::vector<int32_t>> documents;
  for (const int64_t length : {5, 9, 9, 3, 30, 4}) {
    documents.push_back(model::random_ids(length, 258, 1));
  }
  const std::vector<std::span<const int32_t>> spans(documents.begin(), documents.end());
  const model::ScoringOptions options{.context = 64, .batch_tokens = 16};
  infer::Session session(infer::open_model_files(model), ops::Precision::kFp32, 64,
                         [&](ops::Context& ctx, model::Model& m, Arena& activations) {
                           model::score_documents(ctx, m, activations, spans, options);
                         });
  // Inputs are one fewer than tokens: 4 + 8, then 8 + 2, then 29 alone, then 3.
  std::vector<int64_t> reported;
  model::score_documents(session.context(), session.model(), session.activations(), spans, options,
                         [&](int64_t done, int64_t total) {
                           reported.push_back(done);
                           EXPECT_EQ(total, 54);
                         });
  EXPECT_EQ(reported, (std::vector<int64_t>{12, 22, 51, 54}));
}

TEST(ScoreDocuments, RefusesATokenOutsideTheVocabulary) {
  const ScratchFolder folder;
  infer::Session session = session_of(test::write_model(folder / "model", test::text_config()));
  const std::vector<int32_t> ids = {1, 258};
  const std::vector<std::span<const int32_t>> documents = {ids};
  try {
    model::score_documents(session.context(), session.model(), session.activations(), documents,
                           {});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("token 258 at position 1"), std::string::npos);
  }
}

TEST(Perplexity, RefusesWhatItCannotMeasure) {
  const ScratchFolder folder;
  const fs::path good = folder.write("good.txt", "text");
  const auto code = [&](const PerplexityOptions& options) {
    try {
      measure_perplexity(options);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  const fs::path model = test::write_model(folder / "model", test::text_config());
  EXPECT_EQ(code({.model = model, .data = good}), ExitCode::kDone);
  EXPECT_EQ(code({.model = model, .data = good, .context = 65}), ExitCode::kUsage);
  EXPECT_EQ(code({.model = model, .data = good, .context = 0}), ExitCode::kUsage);
  EXPECT_EQ(code({.model = model, .data = folder.write("bad.txt", "\xff")}), ExitCode::kData);
  EXPECT_EQ(code({.model = model, .data = folder.write("none.jsonl", "{\"text\":\"\"}\n")}),
            ExitCode::kData);
  EXPECT_EQ(code({.model = model, .data = folder / "absent.txt"}), ExitCode::kData);
  const fs::path silent =
      test::write_model(folder / "silent", test::text_config(), {.tokenizer = false});
  EXPECT_EQ(code({.model = silent, .data = good}), ExitCode::kUsage);

  Arena values("values");
  values.reserve(size_t{64} << 20);
  model::Parameters parameters(test::text_config(), ops::Precision::kFp32, values);
  model::randomise(parameters, 1);
  std::vector<checkpoint::SideFile> files;
  for (auto& [name, content] : data::make_byte_tokenizer()->files())
    files.push_back({name, content});
  const auto broken_by = [&](float value) {
    const fs::path broken = folder / "broken";
    checkpoint::export_model(broken, test::text_config(), checkpoint::weights_of(parameters), files,
                             {.dtype = DType::kF32});
    // No model with a weight that is no number is written: the first row of the embedding, in the file.
    const fs::path path = broken / "model.safetensors";
    const uint64_t begin = checkpoint::SafetensorsFile(path).at("model.embed_tokens.weight").begin;
    std::string bytes = read_file(path);
    for (int64_t i = 0; i < test::text_config().hidden; ++i) {
      std::memcpy(bytes.data() + begin + static_cast<size_t>(i) * sizeof value, &value,
                  sizeof value);
    }
    write_file_atomically(path, bytes);
    return code({.model = folder / "broken", .data = good});
  };
  EXPECT_EQ(broken_by(std::numeric_limits<float>::quiet_NaN()), ExitCode::kData);
  EXPECT_EQ(broken_by(3e38F), ExitCode::kNumbers);  // finite weights whose logits are not
}

}  // namespace
}  // namespace athanor::eval
