// Generation: prompts are read in chunks, then one token follows another, for many texts at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/threads.h"
#include "infer/sampler.h"
#include "infer/session.h"

namespace athanor::infer {

/// Prompt tokens that one forward pass takes: products are large by then, and activations still
/// small.
inline constexpr int64_t kPrefillChunk = 512;

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 0;            ///< at least 1
  std::vector<int32_t> stop_tokens;  ///< generation ends with any of these
  int64_t chunk = kPrefillChunk;
};

/// A text to continue. The ids lie inside the vocabulary; there is at least one.
struct Prompt {
  std::vector<int32_t> ids;
  GenerationOptions options;
};

/// Why a text ended.
enum class Ending : uint8_t {
  kStopToken,
  kStopped,  ///< the sink wanted no more
  kLength,   ///< max_tokens
};

/// Gets what is drawn for text after text, as it comes.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  /// `token` continues prompts[text]. False: the text is long enough. What is returned for a stop token does not matter.
  virtual bool token(size_t text, int32_t token) = 0;
  /// prompts[text] is done. Texts end in any order.
  virtual void end(size_t text, Ending ending) = 0;
};

/// The memory that generate() takes for these prompts, `at_once` of them side by side.
Work generation_work(std::span<const Prompt> prompts, int64_t at_once);

/// Continues all prompts, `at_once` of them side by side: the next one takes the place of one that ended. Each becomes, to
/// the bit, what it would become alone. Keys, values and CCA's state are cached, so that a token costs one step. The session
/// must have room for generation_work. Throws kNumbers when logits are not finite.
void generate(Session& session, std::span<const Prompt> prompts, int64_t at_once,
              GenerationSink& sink);

/// The most prompts, up to `most`, that this machine has memory for side by side; 1 where not even that is known to fit.
int64_t prompts_at_once(const ModelFiles& files, ops::Precision precision, int64_t longest_sequence,
                        std::span<const Prompt> prompts, int64_t most);

/// Tokens of the longest text: its prompt and what may follow.
int64_t longest_text(std::span<const Prompt> prompts);

}  // namespace athanor::infer
