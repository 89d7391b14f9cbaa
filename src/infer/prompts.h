// What a person gives a model to continue, as token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "infer/generate.h"
#include "infer/session.h"

namespace athanor::infer {

/// How texts are continued: the options of `generate` that hold for all of them.
struct WritingOptions {
  std::optional<int64_t> max_tokens;  ///< none: 256, or fewer where the context ends before
  SamplingOptions sampling;
  bool ignore_eos = false;
  std::vector<std::string> stop;  ///< texts at which generation ends; they are not shown
  ops::Precision precision = ops::Precision::kBf16;
};

/// The ids of `text`, BOS in front where the model was trained with it. Throws kData for a text that is not UTF-8, or that
/// is empty where there is no BOS.
std::vector<int32_t> text_ids(const ModelFiles& files, std::string_view text);

/// Token ids from "1,2,3" (blanks allowed). Throws kUsage for anything else and for ids outside [0,
/// vocab).
std::vector<int32_t> parse_ids(std::string_view text, int64_t vocab);

/// A file's bytes, or standard input's where `path` is "-". Throws kData when it cannot be read.
std::string read_prompt_file(const fs::path& path);

/// The prompt as it will be continued. `max_tokens` wins over the options'. Throws kUsage, with the figures, where the
/// context cannot hold prompt and answer.
Prompt make_prompt(const ModelFiles& files, std::vector<int32_t> ids, const WritingOptions& options,
                   std::optional<int64_t> max_tokens);

/// Makes a chat model's end of turn one more end of the text: as the token that it is, else as a stop string.
void stop_at_turn_end(const ModelFiles& files, GenerationOptions& options,
                      std::vector<std::string>& stop);

/// Throws kUsage for options that cannot be followed: sampling, stop strings, or these without a tokenizer.
void check_writing(const ModelFiles& files, const WritingOptions& options);

}  // namespace athanor::infer
