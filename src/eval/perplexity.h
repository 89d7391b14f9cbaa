// Perplexity and bits per byte of a finished model on documents.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files.h"
#include "ops/context.h"

namespace athanor::eval {

struct PerplexityOptions {
  fs::path model;
  fs::path data;  ///< .txt, .jsonl or a folder of them (data/documents.h)
  /// Most tokens that a prediction sees; none: the longest sequence of the training, beyond which a model guesses, or the
  /// model's max_positions where its files do not tell it.
  std::optional<int64_t> context;
  ops::Precision precision = ops::Precision::kBf16;
};

/// What the model charges for the documents as it was trained on them: BOS (given, if it knows
/// one), text, EOS (charged, if it knows one). Every byte is charged. Without BOS a document's
/// first token counts as one of V equal choices: log2 V bits.
struct Perplexity {
  double bits_per_byte = 0;  ///< all bits, EOS's included, over the UTF-8 bytes of the texts
  double perplexity = 0;     ///< exp(nats per charged token)
  double nats = 0;
  int64_t tokens = 0;  ///< charged
  int64_t bytes = 0;
  int64_t documents = 0;
  int64_t context = 0;
  bool bos = false;
  bool eos = false;
};

/// Reads the documents, tokenizes and charges them (model/scoring.h), some megabytes of text at a
/// time, with progress on stderr. The same bits for any number of threads. Throws kUsage for a
/// model without a tokenizer or a context beyond max_positions, kData for bad documents or none
/// with any text, kNumbers when the model's losses are not finite.
Perplexity measure_perplexity(const PerplexityOptions& options);

}  // namespace athanor::eval
