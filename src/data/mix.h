// Mixing sources: which source each sample comes from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace athanor::data {

/// A repeating pattern of source numbers in which, in every prefix of n samples, source s occurs
/// within one of n · share_s times (R. Tijdeman, "The chairman assignment problem", Discrete
/// Mathematics 32, 1980).
class Mix {
 public:
  /// Weights need not sum to one. Shares are exact when the weights are small whole numbers or
  /// decimals in a common ratio (period up to 2^20); others are rounded to one part in 2^20.
  /// usage_error unless all are positive and finite.
  explicit Mix(std::span<const double> weights);

  /// The source of sample i.
  int source(uint64_t i) const { return source_[i % source_.size()]; }
  /// How many samples before i come from the same source as i.
  uint64_t ordinal(uint64_t i) const;
  /// How many of the first n samples come from source s.
  uint64_t count(int s, uint64_t n) const;
  uint64_t period() const { return source_.size(); }

 private:
  std::vector<uint16_t> source_;
  std::vector<uint32_t> rank_;   // occurrences of source_[j] before j in the period
  std::vector<uint32_t> quota_;  // occurrences of each source in a period
};

}  // namespace athanor::data
