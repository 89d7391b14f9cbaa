// Which tokens of a tokenizer.json are BOS, EOS, UNK and PAD.
#pragma once

#include <string>

#include "data/hf/post_processor.h"
#include "data/hf/vocabulary.h"
#include "data/tokenizer.h"

namespace athanor::data::hf {

/// As tokenizer_config.json says (`config`, its content, `config_name` in messages; empty when there is none). What it does
/// not name is taken from the template, from the model's unknown token, and last from special tokens with the usual names
/// ("<s>", "<|endoftext|>" …).
SpecialIds find_special_ids(const Vocabulary& vocabulary, const SpecialFrame& frame, int32_t unk,
                            const std::string& config, const std::string& config_name);

}  // namespace athanor::data::hf
