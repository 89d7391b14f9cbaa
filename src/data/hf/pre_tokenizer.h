// Pre-tokenizers of tokenizer.json: how a normalized text is cut into the words that the model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/threads.h"
#include "data/hf/json_fields.h"
#include "data/hf/normalizer.h"

namespace athanor::data::hf {

using PieceSink = FunctionRef<void(const Piece&)>;

/// Immutable; may be used from many threads at once.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Calls sink for each word of `piece` that is not empty, in order. A word's text is valid during the call only.
  virtual void split(const Piece& piece, PieceSink sink) const = 0;
  /// True when a text may be cut between a letter and a space behind it, and its parts split one by one.
  virtual bool splits_at_spaces() const = 0;
};

/// How a model is to be given its words.
struct ReadPreTokenizer {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  /// A ByteLevel pre-tokenizer is among them: the vocabulary spells bytes by GPT-2's characters. The words are bytes all the
  /// same; only pre-tokenizers behind that one see the characters.
  bool byte_level = false;
  /// A Metaspace that marks the first word alone comes behind a step that cuts words: it asks which came first in the text.
  bool asks_for_first = false;
};

/// The `pre_tokenizer` of a file. Types that are not known are refused by name.
ReadPreTokenizer read_pre_tokenizer(const Field& field);

}  // namespace athanor::data::hf
