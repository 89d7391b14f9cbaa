// How a model was shown its text: what neither its weights nor its tokenizer's own files tell. It is kept in
// tokenizer_config.json under the keys by which Hugging Face's tokenizers know the same things.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "data/tokenizer.h"

namespace athanor::data {

struct TextSettings {
  bool bos = false;  ///< documents begin with BOS ("add_bos_token")
  std::optional<int64_t>
      sequence;  ///< tokens of the longest sequence in training ("model_max_length")
};

/// tokenizer.files() for a model or checkpoint with these settings.
std::vector<std::pair<std::string, std::string>> model_tokenizer_files(
    const Tokenizer& tokenizer, const TextSettings& settings);

/// The settings in the text of a tokenizer_config.json, `where` in messages.
TextSettings parse_text_settings(std::string_view json, const std::string& where);
/// The settings in `folder`'s tokenizer_config.json; defaults where the file or a key is absent. A model_max_length that is no
/// whole number of tokens (Hugging Face writes 1e30 for "unknown") counts as absent. kData when the file is damaged.
TextSettings read_text_settings(const fs::path& folder);

}  // namespace athanor::data
