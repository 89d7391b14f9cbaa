// Picks the next token from logits: greedy, or by temperature, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace athanor::infer {

struct SamplingOptions {
  double temperature = 1.0;  ///< 0: greedy
  int64_t top_k = 0;         ///< only the k most likely tokens; 0: all
  double top_p = 1.0;        ///< of these the fewest that together reach this probability; 1: all
  uint64_t seed = 0;

  /// Throws kUsage for a temperature or top-p that is not a number or negative, a top-p outside
  /// (0, 1], a negative top-k.
  void validate() const;
};

/// Draws token after token. The n-th draw is a function of the logits, the options and n alone. Of
/// equal logits the lowest index is taken as the more likely: greedy, top-k and top-p cut ties by
/// it.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  /// An index of `logits`. A logit of −inf is never drawn; throws kNumbers when one is NaN or +inf
  /// or none is finite.
  int32_t sample(std::span<const float> logits);

 private:
  /// The indices that may be drawn, most likely first where a cut needs the order, else as they
  /// come.
  std::span<const int32_t> candidates(std::span<const float> logits);

  SamplingOptions options_;
  uint64_t draws_ = 0;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace athanor::infer
