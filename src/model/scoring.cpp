#include "model/scoring.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace athanor::model {
namespace {

/// Windows [first, last) that run in one forward pass.
struct WindowBatch {
  size_t first = 0;
  size_t last = 0;
  int64_t tokens = 0;
};

std::vector<WindowBatch> batches_of(std::span<const ScoringWindow> windows, int64_t batch_tokens) {
  std::vector<WindowBatch> batches;
  for (size_t i = 0; i < windows.size(); ++i) {
    const bool fits = !batches.empty() && batches.back().tokens + windows[i].length <= batch_tokens;
    if (!fits) batches.push_back({i, i, 0});
    batches.back().last = i + 1;
    batches.back().tokens += windows[i].length;
  }
  return batches;
}

void check_ids(std::span<const std::span<const int32_t>> documents, int64_t vocab) {
  for (size_t d = 0; d < documents.size(); ++d) {
    for (size_t t = 0; t < documents[d].size(); ++t) {
      const int32_t id = documents[d][t];
      if (id < 0 || id >= vocab) {
        throw data_error(fmt::format(
            "token {} at position {} of document {} is outside the model's vocabulary of {}; the "
            "tokenizer is not this model's",
            id, t, d, vocab));
      }
    }
  }
}

}  // namespace

std::vector<ScoringWindow> scoring_windows(std::span<const int64_t> lengths, int64_t context) {
  require(context >= 1, "scoring_windows: context below 1");
  const int64_t stride = std::max<int64_t>(1, context / 2);
  std::vector<ScoringWindow> windows;
  for (size_t d = 0; d < lengths.size(); ++d) {
    const int64_t inputs = lengths[d] - 1;
    int64_t reached = 0;
    for (int64_t begin = 0; reached < inputs; begin += stride) {
      const int64_t length = std::min(context, inputs - begin);
      windows.push_back({static_cast<int64_t>(d), begin, length, reached});
      reached = begin + length;
    }
  }
  return windows;
}

std::vector<DocumentScore> score_documents(ops::Context& ctx, Model& model, Arena& activations,
                                           std::span<const std::span<const int32_t>> documents,
                                           const ScoringOptions& options,
                                           const ScoringProgress& progress) {
  const ModelConfig& config = model.config();
  const int64_t context = options.context > 0 ? options.context : config.max_positions;
  if (!ctx.planning()) check_ids(documents, config.vocab);

  std::vector<DocumentScore> scores(documents.size());
  std::vector<int64_t> lengths;
  for (size_t d = 0; d < documents.size(); ++d) {
    lengths.push_back(static_cast<int64_t>(documents[d].size()));
    if (!options.bos && lengths.back() > 0 && !ctx.planning()) {
      scores[d] = {math::log(static_cast<double>(config.vocab)), 1};
    }
  }
  const std::vector<ScoringWindow> windows = scoring_windows(lengths, context);
  int64_t total = 0;
  for (const ScoringWindow& window : windows) total += window.length;

  int64_t done = 0;
  std::vector<int64_t> begins;
  for (const WindowBatch& batch : batches_of(windows, options.batch_tokens)) {
    ArenaScope scope(activations);
    const Tensor ids = activations.tensor(DType::kI32, {batch.tokens});
    const Tensor targets = activations.tensor(DType::kI32, {batch.tokens});
    const Tensor losses =
        activations.tensor(ops::real_dtype(model.parameters().precision()), {batch.tokens});
    begins.assign(1, 0);
    for (size_t w = batch.first; w < batch.last; ++w) {
      const ScoringWindow& window = windows[w];
      const int64_t row = begins.back();
      begins.push_back(row + window.length);
      if (ctx.planning()) continue;
      const auto& document = documents[static_cast<size_t>(window.document)];
      for (int64_t i = 0; i < window.length; ++i) {
        const auto at = static_cast<size_t>(window.begin + i);
        ids.as<int32_t>()[row + i] = document[at];
        const bool charged = window.begin + i >= window.charged_from;
        targets.as<int32_t>()[row + i] = charged ? document[at + 1] : -1;
      }
    }
    Statistics statistics;
    model.forward(ctx, activations, {ids, targets, begins}, losses, statistics);
    done += batch.tokens;
    if (ctx.planning()) continue;

    for (size_t w = batch.first; w < batch.last; ++w) {
      const ScoringWindow& window = windows[w];
      DocumentScore& score = scores[static_cast<size_t>(window.document)];
      const int64_t row = begins[w - batch.first] - window.begin;
      for (int64_t i = window.charged_from; i < window.begin + window.length; ++i) {
        score.nats += losses.dtype() == DType::kF64 ? losses.as<double>()[row + i]
                                                    : double{losses.as<float>()[row + i]};
      }
      score.tokens += window.begin + window.length - window.charged_from;
    }
    if (progress) progress(done, total);
  }
  return scores;
}

}  // namespace athanor::model
