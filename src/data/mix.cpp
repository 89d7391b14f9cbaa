#include "data/mix.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace athanor::data {
namespace {

constexpr uint64_t kLongestPeriod = uint64_t{1} << 20;

/// Whole numbers in the ratio of the weights, without common divisor, whose sum is at most
/// kLongestPeriod.
std::vector<int64_t> ratio_of(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> parts(weights.size());
  // Decimals: some power of ten makes them whole. 1e-9 is far above their rounding, far below what
  // a person writes.
  for (double scale = 1; scale <= 1e6; scale *= 10) {
    const bool whole = std::all_of(weights.begin(), weights.end(), [&](double weight) {
      const double scaled = weight * scale;
      return scaled >= 0.5 && scaled < 1e15 &&
             std::abs(scaled - std::round(scaled)) <= 1e-9 * scaled;
    });
    if (!whole) continue;
    int64_t divisor = 0;
    for (size_t s = 0; s < weights.size(); ++s) {
      parts[s] = std::llround(weights[s] * scale);
      divisor = std::gcd(divisor, parts[s]);
    }
    double period = 0;
    for (int64_t& part : parts) {
      part /= divisor;
      period += static_cast<double>(part);
    }
    if (period <= static_cast<double>(kLongestPeriod)) return parts;
    break;
  }
  for (size_t s = 0; s < weights.size(); ++s) {
    const double share = weights[s] / total * static_cast<double>(kLongestPeriod - weights.size());
    parts[s] = std::max<int64_t>(1, std::llround(share));
  }
  return parts;
}

}  // namespace

Mix::Mix(std::span<const double> weights) {
  if (weights.empty() || weights.size() > UINT16_MAX) {
    throw usage_error("a phase needs between 1 and 65,535 sources");
  }
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      throw usage_error("the weight of a source must be a positive number, not " +
                        std::to_string(weight));
    }
  }
  const std::vector<int64_t> parts = ratio_of(weights);
  const int64_t period = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const auto sources = static_cast<int64_t>(parts.size());
  quota_.assign(parts.size(), 0);
  if (sources == 1) {
    source_ = {0};
    rank_ = {0};
    quota_ = {1};
    return;
  }
  // Tijdeman's rule, in whole numbers (all of the paper's terms times 2 (sources − 1) period). At
  // step n a source s may come next when share_s n − count_s ≥ 1/(2 (sources − 1)); of those, the
  // one whose turn would be overdue first, which is the one with the smallest (1 − 1/(2 (sources −
  // 1)) − share_s n + count_s) / share_s.
  const int64_t scale = 2 * (sources - 1);
  for (int64_t n = 1; n <= period; ++n) {
    int64_t best = -1;
    double best_deadline = 0;
    for (int64_t s = 0; s < sources; ++s) {
      const auto i = static_cast<size_t>(s);
      const int64_t lag = scale * (parts[i] * n - int64_t{quota_[i]} * period);
      if (lag < period) continue;
      const double deadline =
          static_cast<double>((scale - 1) * period - lag) / static_cast<double>(parts[i]);
      if (best < 0 || deadline < best_deadline) {
        best = s;
        best_deadline = deadline;
      }
    }
    require(best >= 0, "no source is due");
    source_.push_back(static_cast<uint16_t>(best));
    rank_.push_back(quota_[static_cast<size_t>(best)]++);
  }
}

uint64_t Mix::ordinal(uint64_t i) const {
  const uint64_t place = i % period();
  return i / period() * quota_[source_[place]] + rank_[place];
}

uint64_t Mix::count(int s, uint64_t n) const {
  uint64_t count = n / period() * quota_[static_cast<size_t>(s)];
  for (uint64_t place = 0; place < n % period(); ++place) count += source_[place] == s ? 1 : 0;
  return count;
}

}  // namespace athanor::data
