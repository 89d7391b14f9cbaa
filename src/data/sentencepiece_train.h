// Training a SentencePiece model through its library.
#pragma once

#include <cstdint>
#include <memory>

#include "data/documents.h"
#include "data/tokenizer.h"

namespace athanor::data {

struct SentencePieceTraining {
  TokenizerKind kind = TokenizerKind::kBpe;  ///< kUnigram or kBpe
  int32_t vocab_size = 8192;  ///< in all: <unk>, <s>, </s>, the 256 bytes and the learned pieces
  uint64_t max_bytes = uint64_t{256} << 20;  ///< more text than this is sampled, by whole documents
  uint64_t seed = 0;                         ///< of that sample
};

/// Learns pieces from all documents left in `documents`. Identity normalization, no dummy prefix, spaces kept, byte
/// fallback; ids 0–2 are <unk>, <s>, </s>. The result is a pure function of the text and the options, whatever the number
/// of cores. A vocabulary larger than the text supports is lowered to what it does support, with a
/// warning. usage_error when it is too small, data_error without any text.
std::unique_ptr<Tokenizer> train_sentencepiece(DocumentReader& documents,
                                               const SentencePieceTraining& options);

}  // namespace athanor::data
