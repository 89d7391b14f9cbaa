// Learning a tokenizer from text: the one door to all kinds that can be trained.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "data/documents.h"
#include "data/tokenizer.h"

namespace athanor::data {

enum class TrainedKind : uint8_t {
  kByteLevel,     ///< BPE over bytes, as GPT-2 and Llama 3 have it
  kByteFallback,  ///< BPE over characters, rare ones as bytes, as Llama 2 and Gemma have it
  kUnigram,       ///< SentencePiece's unigram model, through its library
};
/// "byte-level", "byte-fallback" or "unigram": the words of configs and of the command line.
const char* name_of(TrainedKind kind);
TrainedKind trained_kind(std::string_view name);

struct TokenizerTraining {
  TrainedKind kind = TrainedKind::kByteLevel;
  int32_t vocab_size = 8192;  ///< in all: special tokens, bytes, characters and what is learned
  std::vector<std::string> special;  ///< tokens of the user's, such as <|im_start|>; not of unigram
  /// More text than this is sampled, by whole documents. Unigram has 256 MB without it, the others read everything.
  std::optional<uint64_t> max_bytes;
  uint64_t seed = 0;  ///< of that sample
};

/// Learns from all documents left in `documents`. The result is a pure function of the text and the options, whatever the
/// number of threads. A vocabulary larger than the text supports is lowered to what it does support, with a warning.
/// usage_error when it is too small or a special token cannot be one, data_error without any text.
std::unique_ptr<Tokenizer> train_tokenizer(DocumentReader& documents,
                                           const TokenizerTraining& options,
                                           const Threads& threads);

}  // namespace athanor::data
