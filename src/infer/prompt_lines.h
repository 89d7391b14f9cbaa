// Many prompts from a .jsonl file, continued side by side.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "infer/prompts.h"

namespace athanor::infer {

struct PromptLinesRequest {
  fs::path model;
  fs::path jsonl;                     ///< objects, one a line; blank lines count for nothing
  bool chat = false;                  ///< a prompt is a user's turn under the model's chat template
  std::optional<std::string> system;  ///< with chat, the system's turn in front of a prompt
  WritingOptions writing;
};

/// Continues every object of the file. An object has one of `prompt` (a text), `ids` (token ids) and, with chat, `messages`
/// (objects with `role` and `content`); it may have `max_tokens` and `seed`. Object i, from 0, draws with the seed + i, or
/// with its own. `emit` gets a line for each, in order, as soon as it and those before it are done: the object's other keys
/// as they were, then `text`, `ids`, `prompt_tokens` and `finish_reason`. A text becomes, to the bit, what `generate` makes
/// of its prompt alone with that seed.
///
/// The prompts go through the model side by side, as many as memory holds. Throws kData, before weights are read, with
/// FILE:LINE for an object that cannot be served, and kResources where not even one fits.
void complete_lines(const PromptLinesRequest& request,
                    const std::function<void(std::string_view line)>& emit);

}  // namespace athanor::infer
