// What the verb `generate` does: from MODEL and a prompt to text, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "infer/sampler.h"
#include "infer/session.h"

namespace athanor::infer {

struct CompletionRequest {
  fs::path model;
  std::optional<std::string>
      prompt;  ///< text; BOS is put in front where the model was trained with it
  std::optional<std::string> ids;     ///< "1,2,3", taken as they are; one of the two must be given
  std::optional<int64_t> max_tokens;  ///< none: 256, or fewer where the context ends before
  SamplingOptions sampling;
  bool ignore_eos = false;
  ops::Precision precision = ops::Precision::kBf16;
};

struct Completion {
  std::vector<int32_t> ids;         ///< generated tokens alone, an EOS included
  std::optional<std::string> text;  ///< theirs; none without a tokenizer
  int64_t prompt_tokens = 0;
  bool stopped = false;  ///< by EOS, before max_tokens
};

/// Runs a request. `emit` gets the text in pieces that never cut a UTF-8 character; without a
/// tokenizer "17" and then ",4" … Throws kUsage, before weights are read, for a prompt that is
/// empty, outside the vocabulary or too long for the context.
Completion complete(const CompletionRequest& request,
                    const std::function<void(std::string_view)>& emit);

/// Token ids from "1,2,3" (blanks allowed). Throws kUsage for anything else and for ids outside [0,
/// vocab).
std::vector<int32_t> parse_ids(std::string_view text, int64_t vocab);

}  // namespace athanor::infer
