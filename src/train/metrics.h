// What a step tells: one JSON object a line in metrics.jsonl, and the same as TensorBoard scalars.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/phases.h"
#include "train/step.h"
#include "train/tensorboard.h"
#include "train/validation.h"

namespace athanor::train {

/// How one layer's experts share the tokens of a step.
struct ExpertLoad {
  double entropy =
      0;  ///< of the shares among real experts, over ln E: 1 is even (1 for a single expert)
  double max_over_mean = 0;  ///< the fullest expert's tokens over the mean
  int64_t dead = 0;          ///< experts without a token
  double skip_share = 0;     ///< of all tokens, those that chose the skip class
};
/// `counts` are one layer's tokens by class, the skip class last.
ExpertLoad expert_load(std::span<const int64_t> counts);

struct StepMetrics {
  StepPlan plan;
  std::string phase;
  StepResult result;
  int64_t skipped_steps = 0;  ///< of the run so far
  double epochs = 0;          ///< of the phase's first source, after this step
  std::vector<ExpertLoad> experts;
  std::optional<ValidationResult> validation;
  // Of this machine at this time: all else is the same in every run of the config.
  double seconds = 0;  ///< of the step, validation and checkpoints apart
  double tokens_per_second = 0;
  double ceiling_share = 0;  ///< useful FLOPs over what the measured matrix rate could do
  double data_wait_seconds = 0;
  int64_t memory_bytes = 0;  ///< resident
};

/// One line without its end. A number that is not finite is null. "step" counts from 1: the steps done.
std::string to_json_line(const StepMetrics& metrics);
/// The same for TensorBoard.
std::vector<Scalar> to_scalars(const StepMetrics& metrics);

/// Resident memory of this process.
int64_t resident_bytes();

}  // namespace athanor::train
