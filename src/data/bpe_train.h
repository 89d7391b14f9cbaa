// Learning a BPE of bytes, or of characters with byte fallback, from text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "data/bpe_train_words.h"
#include "data/documents.h"
#include "data/tokenizer.h"

namespace athanor::data {

struct BpeTraining {
  bool byte_level = true;  ///< else characters with byte fallback
  int32_t vocab_size = 8192;
  std::vector<std::string>
      special;  ///< behind BOS, EOS and PAD; cut out of the text before anything is learned
  uint64_t most_cost = WordCounting{}.most_cost;  ///< how much the distinct words may take
};

/// Ids in order: <|pad|>, <|begin_of_text|>, <|end_of_text|>, or <unk>, <s>, </s>, <pad> with byte fallback; the user's
/// special tokens; 256 bytes; with byte fallback the characters that make up 99.99% of the text, at most half of what is
/// left; what is learned. Equal to what Hugging Face's trainer learns from the same words with the same alphabet.
/// A pure function of the text and the options. With default options memory is bounded by about a gigabyte beside the
/// documents in hand. A vocabulary larger than the text supports is lowered, with a warning. usage_error when it has no room
/// for special tokens and bytes, or a special token is empty, given twice or a token of the alphabet; data_error without text.
std::unique_ptr<Tokenizer> train_bpe(DocumentReader& documents, const BpeTraining& options,
                                     const Threads& threads);

}  // namespace athanor::data
