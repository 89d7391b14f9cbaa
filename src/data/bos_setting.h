// Whether a model's documents begin with BOS: the one thing about its text that neither its weights
// nor its tokenizer's own files tell. It is kept as `add_bos_token` in tokenizer_config.json, where
// Hugging Face's tokenizers look for it too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "data/tokenizer.h"

namespace athanor::data {

/// tokenizer.files() for a model or checkpoint whose documents begin with BOS or do not:
/// tokenizer_config.json says so.
std::vector<std::pair<std::string, std::string>> model_tokenizer_files(const Tokenizer& tokenizer,
                                                                       bool bos);

/// add_bos_token of `folder`'s tokenizer_config.json; false where the file or the key is absent.
/// kData when either is damaged.
bool reads_bos_setting(const fs::path& folder);

}  // namespace athanor::data
