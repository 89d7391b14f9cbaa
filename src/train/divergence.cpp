#include "train/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor::train {
namespace {

constexpr int64_t kHorizon = 100;  // steps of the averages
constexpr int64_t kLearning =
    50;  // good steps before spikes are looked for: the first losses fall steeply

}  // namespace

std::string DivergenceGuard::observe(int phase, double loss, bool applied) {
  State& s = state_;
  if (phase != s.phase) s = {phase, 0, 0, 0, 0, s.skips, s.skipped};
  if (!applied) {
    ++s.skips;
    ++s.skipped;
    if (s.skips < faults_.skip_limit) return {};
    return fmt::format("{} steps in a row had a loss or gradients that are not finite", s.skips);
  }
  s.skips = 0;
  const double limit = s.mean + faults_.spike_sigma * std::sqrt(s.variance);
  if (faults_.spike_sigma > 0 && s.good_steps >= kLearning && loss > limit) {
    ++s.spikes;
    if (s.spikes < faults_.spike_steps) return {};
    return fmt::format(
        "the loss ({:.4f}) was above running mean + {:g} sigma ({:.4f}) for {} steps", loss,
        faults_.spike_sigma, limit, s.spikes);
  }
  s.spikes = 0;
  ++s.good_steps;
  const double weight = 1.0 / static_cast<double>(std::min(s.good_steps, kHorizon));
  const double off = loss - s.mean;
  s.mean += weight * off;
  s.variance = (1 - weight) * (s.variance + weight * off * off);
  return {};
}

}  // namespace athanor::train
