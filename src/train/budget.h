// Fitting a run to a time budget.
#pragma once

#include "train/config.h"

namespace athanor::train {

/// What a few steps and one validation took on this machine.
struct MeasuredPace {
  double spent_seconds = 0;      ///< by measuring: part of the budget
  double seconds_per_token = 0;  ///< of training
  double seconds_per_validation = 0;
  double seconds_per_checkpoint = 0;
};

/// Scales the tokens of all phases by one factor so that training, validations and checkpoints fill what is left of
/// run.time_budget_seconds, less a margin for a machine that slows down; every phase keeps at least one step. Marks the
/// config as fitted.
void fit_to_budget(Config& config, const MeasuredPace& pace);

}  // namespace athanor::train
