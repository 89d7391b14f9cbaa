// Fitting a run to a time budget.
#pragma once

#include <cstdint>

#include "optim/schedule.h"
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

/// How many steps the last phase should have now that the machine has shown its pace: `next` steps of it are done, `possible`
/// more fit into what is left of the budget. The answer never alters a learning rate that was used: a schedule changes while
/// it is flat and only where it has to, brought forward when it could not end in time, put off when it is about to end early.
/// `schedule` has the steps planned so far as total_steps.
int64_t refitted_steps(const optim::Schedule& schedule, int64_t next, double possible);

}  // namespace athanor::train
