#include "train/validation.h"

#include <algorithm>
#include <numbers>

#include "model/scoring.h"

namespace athanor::train {
namespace {

constexpr uint64_t kDocumentTokens = 8192;

/// As many tokens together as a micro-batch of training has: then validation needs no more room.
model::ScoringOptions scoring_options(int64_t sequence, int64_t micro_batch, bool bos) {
  model::ScoringOptions options;
  options.context = sequence;
  options.batch_tokens = sequence * micro_batch;
  options.bos = bos;
  return options;
}

}  // namespace

Validation::Validation(const Config& config, const data::Tokenizer& tokenizer,
                       std::span<const std::shared_ptr<const data::TokenSource>> held_out)
    : bos_(config.data.bos), micro_batch_(config.batch.micro_batch) {
  if (config.validation.interval_steps == 0) return;
  uint64_t all = 0;
  for (const auto& source : held_out) all += source->documents();
  const uint64_t wanted = std::min(all, static_cast<uint64_t>(config.validation.documents));
  uint64_t first = 0;  // of the source, among all
  size_t s = 0;
  for (uint64_t i = 0; i < wanted; ++i) {
    const uint64_t global = i * all / wanted;
    while (global - first >= held_out[s]->documents()) first += held_out[s++]->documents();
    const data::TokenSource& source = *held_out[s];
    const uint64_t document = global - first;
    const uint64_t begin = source.document_begin(document);
    const uint64_t tokens = source.document_begin(document + 1) - begin;
    std::vector<int32_t> ids(std::min(tokens, kDocumentTokens));
    source.read(begin, ids);
    bytes_ += ids.size() == tokens ? static_cast<int64_t>(source.document_bytes(document))
                                   : static_cast<int64_t>(tokenizer.decode(ids).size());
    documents_.push_back(std::move(ids));
  }
}

ValidationResult Validation::run(ops::Context& ctx, model::Model& model, Arena& activations,
                                 int64_t sequence) const {
  const std::vector<std::span<const int32_t>> documents(documents_.begin(), documents_.end());
  ValidationResult result;
  double nats = 0;
  for (const model::DocumentScore& score : model::score_documents(
           ctx, model, activations, documents, scoring_options(sequence, micro_batch_, bos_))) {
    nats += score.nats;
    result.tokens += score.tokens;
  }
  result.bytes = bytes_;
  result.loss = nats / static_cast<double>(std::max<int64_t>(result.tokens, 1));
  result.bits_per_byte =
      nats / std::numbers::ln2 / static_cast<double>(std::max<int64_t>(bytes_, 1));
  return result;
}

void plan_validation(const Config& config, ops::Context& ctx, model::Model& model,
                     Arena& activations) {
  if (config.validation.interval_steps == 0) return;
  for (const Phase& phase : config.phases) {
    // A batch is fullest with whole windows, and has most segments with the shortest documents.
    for (const int64_t inputs : {phase.sequence, int64_t{1}}) {
      const std::vector<int32_t> document(static_cast<size_t>(inputs + 1));
      const std::vector<std::span<const int32_t>> documents(
          static_cast<size_t>(phase.sequence * config.batch.micro_batch / inputs), document);
      model::score_documents(
          ctx, model, activations, documents,
          scoring_options(phase.sequence, config.batch.micro_batch, config.data.bos));
    }
  }
}

}  // namespace athanor::train
