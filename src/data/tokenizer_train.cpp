#include "data/tokenizer_train.h"

#include <array>

#include "data/bpe_train.h"
#include "data/document_sample.h"
#include "data/sentencepiece_train.h"

namespace athanor::data {
namespace {

constexpr std::array<const char*, 3> kNames = {"byte-level", "byte-fallback", "unigram"};

}  // namespace

const char* name_of(TrainedKind kind) { return kNames[static_cast<size_t>(kind)]; }

TrainedKind trained_kind(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<TrainedKind>(i);
  }
  throw bug("a kind of tokenizer that is not trained");
}

std::unique_ptr<Tokenizer> train_tokenizer(DocumentReader& documents,
                                           const TokenizerTraining& options,
                                           const Threads& threads) {
  if (options.kind == TrainedKind::kUnigram) {
    if (!options.special.empty()) {
      throw usage_error("special tokens of your own are not for unigram: choose another kind");
    }
    SentencePieceTraining unigram;
    unigram.kind = TokenizerKind::kUnigram;
    unigram.vocab_size = options.vocab_size;
    unigram.max_bytes = options.max_bytes.value_or(unigram.max_bytes);
    unigram.seed = options.seed;
    return train_sentencepiece(documents, unigram);
  }
  BpeTraining bpe;
  bpe.byte_level = options.kind == TrainedKind::kByteLevel;
  bpe.vocab_size = options.vocab_size;
  bpe.special = options.special;
  if (!options.max_bytes) return train_bpe(documents, bpe, threads);
  const std::vector<std::string> texts =
      sample_documents(documents, *options.max_bytes, options.seed);
  return train_bpe(*read_texts(texts), bpe, threads);
}

}  // namespace athanor::data
