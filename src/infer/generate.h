// Generation: the prompt is read in chunks, then one token follows another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/sampler.h"
#include "infer/session.h"

namespace athanor::infer {

/// Prompt tokens that one forward pass takes: products are large by then, and activations still
/// small.
inline constexpr int64_t kPrefillChunk = 512;

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 0;   ///< at least 1
  int32_t stop_token = -1;  ///< generation ends with this token; −1: none
  int64_t chunk = kPrefillChunk;
};

/// The memory that generate() takes for a prompt of this many tokens.
Work generation_work(int64_t prompt_tokens, const GenerationOptions& options);

/// Continues `prompt` (ids inside the vocabulary, at least one), telling `sink` each token as it is
/// drawn, and returns the tokens drawn, a stop token included. Keys, values and CCA's state are
/// cached, so that a step costs one token. The session must have room for generation_work. Throws
/// kNumbers when logits are not finite.
std::vector<int32_t> generate(Session& session, std::span<const int32_t> prompt,
                              const GenerationOptions& options,
                              const std::function<void(int32_t)>& sink = {});

}  // namespace athanor::infer
