// A SentencePiece model as files for Hugging Face transformers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/sentencepiece_model.h"

namespace athanor::data {

/// The files of Tokenizer::files(): tokenizer.model with `content`, and, where the model keeps text
/// as it is, a tokenizer.json that encodes and decodes like it.
std::vector<std::pair<std::string, std::string>> sentencepiece_files(
    const SentencePieceModel& model, const std::string& content);

}  // namespace athanor::data
