// The tokenizer of raw bytes.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace athanor::data {

/// The byte tokenizer as a Hugging Face `tokenizer.json`: byte-level BPE without merges, id = byte.
std::string byte_tokenizer_json();

/// True when `content` is a tokenizer.json that encodes as the byte tokenizer does; whoever wrote
/// it.
bool is_byte_tokenizer_json(std::string_view content);

}  // namespace athanor::data
