// What a model charges for documents: the core of perplexity, shared by the trainer's validation
// and by `eval`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"

namespace athanor::model {

struct ScoringOptions {
  /// Most tokens that a prediction sees, itself a window's length; 0: the model's max_positions.
  /// The model must have been made with at least that many rope_positions.
  int64_t context = 0;
  /// Windows run together in one forward pass up to this many tokens; a longer window runs alone.
  int64_t batch_tokens = 4096;
  /// Each document begins with a token (BOS) that is given and not charged. Without it the first
  /// token has no prediction and is charged as one of V equal choices: ln V.
  bool bos = false;
};

/// Natural-logarithm charge of one document.
struct DocumentScore {
  double nats = 0;
  int64_t tokens = 0;  ///< charged tokens
};

/// Called after each batch with the tokens done and the tokens to do (overlaps included).
using ScoringProgress = std::function<void(int64_t done, int64_t total)>;

/// Charges every token of every document (token ids as trained: BOS if the model has one, text,
/// EOS), each given all that precedes it in its document while the document fits in `context`. A
/// longer document is read in windows of `context` tokens that advance by half (rounded down, at
/// least 1); a window charges only what the one before did not reach, so that each token sees at
/// least context/2 tokens where there are as many. Equal input gives equal bits, and the batches
/// depend on the documents' lengths and the options alone.
/// Takes ids, targets and losses from `activations`, beside the forward pass's own. While ctx is
/// planning only lengths are read and the scores are zeros. Throws kData for a token outside the
/// vocabulary.
std::vector<DocumentScore> score_documents(ops::Context& ctx, Model& model, Arena& activations,
                                           std::span<const std::span<const int32_t>> documents,
                                           const ScoringOptions& options,
                                           const ScoringProgress& progress = {});

/// Tokens [begin, begin + length) of a document go in; predictions from `charged_from` on are
/// charged.
struct ScoringWindow {
  int64_t document = 0;
  int64_t begin = 0;
  int64_t length = 0;
  int64_t charged_from = 0;  ///< index of the first input whose successor is charged
};
/// The windows of documents of these lengths, in order. A document's last token is never an input.
std::vector<ScoringWindow> scoring_windows(std::span<const int64_t> lengths, int64_t context);

}  // namespace athanor::model
