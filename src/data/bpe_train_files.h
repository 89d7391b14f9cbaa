// A learned BPE as the files that Hugging Face's library and our own reader load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/hf/known_patterns.h"
#include "data/hf/tokenizer.h"

namespace athanor::data {

/// What was learned. Ids are places in `tokens`.
struct LearnedBpe {
  bool byte_level = true;  ///< tokens spell bytes by GPT-2's characters; else byte fallback
  std::vector<std::string> tokens;  ///< special ones first
  size_t special = 0;               ///< how many of them are
  int32_t unk = -1, bos = -1, eos = -1, pad = -1;
  std::vector<std::pair<int32_t, int32_t>> merges;
};

/// What cuts texts into words, in training and (kLlama3Regex) in the files.
inline constexpr hf::KnownPattern kWordPattern = hf::KnownPattern::kCl100kThreeDigits;

/// tokenizer.json and tokenizer_config.json. No template: BOS and EOS stand where a training or `add_bos_token` put them.
TokenizerFiles bpe_files(const LearnedBpe& bpe);

}  // namespace athanor::data
