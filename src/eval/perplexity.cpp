#include "eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/math.h"
#include "data/documents.h"
#include "infer/session.h"
#include "model/scoring.h"

namespace athanor::eval {
namespace {

constexpr uint64_t kPortionBytes =
    4 << 20;  // text in memory at once; a longer document is a portion of its own

/// Some documents as token ids.
struct Portion {
  std::vector<std::vector<int32_t>> documents;
  uint64_t bytes = 0;

  std::vector<std::span<const int32_t>> spans() const {
    return {documents.begin(), documents.end()};
  }
};

/// Reads the next documents; false when there are none left.
bool read_portion(data::DocumentReader& reader, const infer::ModelFiles& files, Portion& portion) {
  const data::Tokenizer& tokenizer = files.require_tokenizer();
  portion = {};
  std::vector<std::string> texts;
  data::Document document;
  while (portion.bytes < kPortionBytes && reader.next(document)) {
    portion.bytes += document.text.size();
    texts.push_back(std::move(document.text));
  }
  const auto eos = static_cast<int32_t>(files.config().eos);
  for (std::vector<int32_t>& ids : data::encode_all(tokenizer, texts, Threads())) {
    if (files.bos >= 0) ids.insert(ids.begin(), files.bos);
    if (eos >= 0) ids.push_back(eos);
    portion.documents.push_back(std::move(ids));
  }
  return !portion.documents.empty();
}

model::ScoringOptions scoring_options(const PerplexityOptions& options,
                                      const infer::ModelFiles& files) {
  const int64_t longest = files.config().max_positions;
  model::ScoringOptions scoring;
  scoring.context = options.context.value_or(files.trained_sequence);
  if (scoring.context < 1 || scoring.context > longest) {
    throw usage_error(fmt::format("--context {} must lie between 1 and the model's context of {}",
                                  scoring.context, longest));
  }
  scoring.bos = files.bos >= 0;
  return scoring;
}

}  // namespace

Perplexity measure_perplexity(const PerplexityOptions& options) {
  const infer::ModelFiles files = infer::open_model_files(options.model);
  files.require_tokenizer();
  const model::ScoringOptions scoring = scoring_options(options, files);
  const data::DocumentFiles sources(options.data);
  sources.warn_ignored();
  const auto reader = sources.read();

  Portion portion;
  const infer::Work work = [&](ops::Context& ctx, model::Model& model, Arena& activations) {
    model::score_documents(ctx, model, activations, portion.spans(), scoring);
  };
  Perplexity result;
  result.context = scoring.context;
  result.bos = scoring.bos;
  result.eos = files.config().eos >= 0;
  log::Progress progress("eval", "bytes", static_cast<int64_t>(sources.bytes()));
  std::optional<infer::Session> session;
  while (read_portion(*reader, files, portion)) {
    if (session) {
      session->make_room(work);
    } else {
      session.emplace(files, options.precision, scoring.context, work);
    }
    const auto report = [&](int64_t done, int64_t total) {
      const double share = static_cast<double>(done) / static_cast<double>(total);
      const auto bytes = static_cast<int64_t>(share * static_cast<double>(portion.bytes));
      progress.update(result.bytes + bytes);
    };
    for (const model::DocumentScore& score :
         model::score_documents(session->context(), session->model(), session->activations(),
                                portion.spans(), scoring, report)) {
      result.nats += score.nats;
      result.tokens += score.tokens;
      ++result.documents;
    }
    result.bytes += static_cast<int64_t>(portion.bytes);
  }
  if (result.bytes == 0) throw data::no_text_error(options.data.string());
  if (!std::isfinite(result.nats)) {
    throw numbers_error("the model's losses are not finite; its weights are damaged or diverged");
  }
  progress.update(static_cast<int64_t>(sources.bytes()));
  progress.finish();
  result.bits_per_byte = result.nats / math::log(2.0) / static_cast<double>(result.bytes);
  result.perplexity = math::exp(result.nats / static_cast<double>(result.tokens));
  return result;
}

}  // namespace athanor::eval
