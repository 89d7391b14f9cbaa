// The divergence guard: tells when the numbers have gone bad.
#pragma once

#include <cstdint>
#include <string>

#include "train/config.h"

namespace athanor::train {

/// Watches each step's loss. Non-finite steps in a row, or losses above running mean + k·σ in a row, are a divergence. Mean
/// and variance are exponential averages over about a hundred good steps; a spike is never averaged in, and a new phase
/// starts anew, since its data may be harder.
class DivergenceGuard {
 public:
  /// What a checkpoint keeps, so that a resumed run decides alike.
  struct State {
    int phase = 0;
    int64_t good_steps = 0;  ///< averaged so far in the phase
    double mean = 0;
    double variance = 0;
    int64_t spikes = 0;   ///< in a row
    int64_t skips = 0;    ///< in a row
    int64_t skipped = 0;  ///< of the whole run
  };

  explicit DivergenceGuard(const FaultsSection& faults) : faults_(faults) {}

  /// Takes the outcome of a step. Returns why the run has diverged; empty while it has not.
  std::string observe(int phase, double loss, bool applied);

  /// True while the last steps were skipped or spikes: a checkpoint taken now may not be a good one.
  bool suspicious() const { return state_.spikes > 0 || state_.skips > 0; }
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  FaultsSection faults_;
  State state_;
};

}  // namespace athanor::train
