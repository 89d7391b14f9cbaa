#include "train/phases.h"

#include <algorithm>

#include "base/error.h"

namespace athanor::train {
namespace {

/// The batch size once the run has trained `tokens`, and where the next size begins (−1: nowhere).
struct BatchAt {
  int64_t sequences;
  int64_t until;
};

BatchAt batch_at(const BatchSection& batch, int64_t tokens) {
  BatchAt now{batch.sequences, -1};
  for (const RampStep& step : batch.ramp) {
    if (step.tokens > tokens) {
      now.until = step.tokens;
      break;
    }
    now.sequences = step.sequences;
  }
  return now;
}

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

RunPlan::RunPlan(const Config& config)
    : phases_(config.phases), adamw_scale_(config.optimizer.adamw_learning_rate_scale) {
  for (size_t p = 0; p < phases_.size(); ++p) {
    const Phase& phase = phases_[p];
    int64_t left = phase.tokens;
    int64_t step_in_phase = 0;
    uint64_t sample = 0;
    while (left > 0) {
      const BatchAt batch = batch_at(config.batch, tokens_);
      const int64_t step_tokens = batch.sequences * phase.sequence;
      int64_t steps = divided_up(left, step_tokens);
      if (batch.until >= 0) {
        steps = std::min(steps, divided_up(batch.until - tokens_, step_tokens));
      }
      segments_.push_back(
          {static_cast<int>(p), steps_, steps, step_in_phase, batch.sequences, sample, tokens_});
      steps_ += steps;
      step_in_phase += steps;
      sample += static_cast<uint64_t>(steps * batch.sequences);
      tokens_ += steps * step_tokens;
      left -= steps * step_tokens;
    }
    phase_steps_.push_back(step_in_phase);
  }
}

StepPlan RunPlan::at(int64_t step) const {
  require(step >= 0 && step < steps_, "a step outside the run's plan");
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), step,
      [](int64_t value, const Segment& segment) { return value < segment.first_step; });
  const Segment& segment = *(after - 1);
  const Phase& phase = phases_[static_cast<size_t>(segment.phase)];
  const int64_t into = step - segment.first_step;
  StepPlan plan;
  plan.phase = segment.phase;
  plan.step = step;
  plan.step_in_phase = segment.step_in_phase + into;
  plan.sequences = segment.sequences;
  plan.sequence = phase.sequence;
  plan.first_sample = segment.first_sample + static_cast<uint64_t>(into * segment.sequences);
  plan.tokens_before = segment.tokens_before + into * segment.sequences * phase.sequence;
  plan.theta = phase.theta;
  plan.learning_rate = optim::learning_rate(
      {phase.schedule, phase.learning_rate, phase.final_learning_rate, phase.warmup_steps,
       phase_steps_[static_cast<size_t>(segment.phase)], phase.decay_share},
      plan.step_in_phase);
  plan.adamw_learning_rate = plan.learning_rate * adamw_scale_;
  return plan;
}

}  // namespace athanor::train
