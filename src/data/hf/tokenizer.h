// Hugging Face's tokenizer.json, read and applied.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer.h"

namespace athanor::data {

/// The files that make a tokenizer of this kind: (name, content). tokenizer.json first; the others, which may be absent,
/// are carried along, and of tokenizer_config.json it is read which tokens are BOS, EOS, UNK and PAD.
using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;

/// The names of the other files.
inline constexpr const char* kTokenizerCompanions[] = {
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

/// `name` is the tokenizer.json's in messages. data_error naming the file and the place where it is damaged, contradicts
/// itself, or uses what is not known here.
std::unique_ptr<Tokenizer> make_hf_tokenizer(TokenizerFiles files, const std::string& name);

}  // namespace athanor::data
