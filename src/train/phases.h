// The plan of a run: what each global step is, as a pure function of the config.
#pragma once

#include <cstdint>
#include <vector>

#include "train/config.h"

namespace athanor::train {

/// One optimizer step before it runs.
struct StepPlan {
  int phase = 0;
  int64_t step = 0;           ///< global, from 0
  int64_t step_in_phase = 0;  ///< from 0
  int64_t sequences = 0;
  int64_t sequence = 0;            ///< tokens of each
  uint64_t first_sample = 0;       ///< of the phase
  int64_t tokens_before = 0;       ///< trained by the steps before, of the run
  double theta = 0;                ///< base of the full layers' rotary angles
  double learning_rate = 0;        ///< of Muon's matrices
  double adamw_learning_rate = 0;  ///< of everything else

  int64_t tokens() const { return sequences * sequence; }
};

/// Phases follow each other; each has as many whole steps as its tokens need. The batch ramp goes
/// by the tokens that the run has trained, so that it may step up inside a phase; the sizes of a
/// step hold for all of it.
class RunPlan {
 public:
  explicit RunPlan(const Config& config);

  int64_t steps() const { return steps_; }
  int64_t tokens() const { return tokens_; }
  int64_t phase_steps(int phase) const { return phase_steps_[static_cast<size_t>(phase)]; }
  /// The plan of a global step in [0, steps()).
  StepPlan at(int64_t step) const;

 private:
  /// Steps of one phase with one batch size.
  struct Segment {
    int phase;
    int64_t first_step;
    int64_t steps;
    int64_t step_in_phase;
    int64_t sequences;
    uint64_t first_sample;
    int64_t tokens_before;
  };
  std::vector<Phase> phases_;
  double adamw_scale_;
  std::vector<Segment> segments_;
  std::vector<int64_t> phase_steps_;
  int64_t steps_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace athanor::train
