// SentencePiece, applied through its library.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace athanor::data {

/// The tokenizer that a model file's content is. `name` is for messages.
std::unique_ptr<Tokenizer> make_sentencepiece(std::string content, const std::string& name);

}  // namespace athanor::data
