// What the verb `generate` does with one prompt: from MODEL and a prompt to text, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "infer/prompts.h"

namespace athanor::infer {

struct CompletionRequest {
  fs::path model;
  // The prompt; exactly one must be given.
  std::optional<std::string>
      prompt;  ///< text; BOS is put in front where the model was trained with it
  std::optional<fs::path> prompt_file;  ///< the same in a file; "-": standard input
  std::optional<std::string> ids;       ///< "1,2,3", taken as they are

  bool chat = false;  ///< the prompt is a user's turn under the model's chat template
  std::optional<std::string> system;  ///< the system's turn in front of it
  WritingOptions writing;
};

struct Completion {
  std::vector<int32_t> ids;         ///< generated tokens alone, an EOS included
  std::optional<std::string> text;  ///< theirs; none without a tokenizer
  int64_t prompt_tokens = 0;
  std::string finish_reason;  ///< "eos", "stop" (a stop string) or "length"
};

/// Runs a request. `emit` gets the text in pieces that never cut a UTF-8 character; without a
/// tokenizer "17" and then ",4" … Throws, before weights are read, kUsage for a prompt that is
/// empty, outside the vocabulary or too long for the context; kData where that is a file's.
Completion complete(const CompletionRequest& request,
                    const std::function<void(std::string_view)>& emit);

}  // namespace athanor::infer
