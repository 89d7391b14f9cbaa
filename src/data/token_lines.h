// Texts to token ids and back, line by line: what `tokenizer encode` and `tokenizer decode` do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/threads.h"
#include "data/tokenizer.h"

namespace athanor::data {

/// Gets one line of output, its newline included.
using LineSink = std::function<void(std::string_view line)>;

/// For each object with a string `text` in the .jsonl file (any name), in order: {"ids":[…]}. With
/// `special` BOS and EOS are added, each where the tokenizer has it. Throws kData "FILE:LINE:
/// what"; lines before it have gone to the sink.
void encode_lines(const Tokenizer& tokenizer, const fs::path& jsonl, bool special,
                  const Threads& threads, const LineSink& sink);

/// For each object with `ids`, an array of whole numbers from 0: {"text":"…"}. An id outside the
/// vocabulary gives nothing.
void decode_lines(const Tokenizer& tokenizer, const fs::path& jsonl, bool skip_special,
                  const LineSink& sink);

/// Takes `ids` out of the JSON object that `line` is. Returns an empty string, or says what is wrong with the line.
std::string ids_of_json_line(std::string_view line, std::vector<int32_t>& ids);

}  // namespace athanor::data
