// What the trainer of one rank settles with those of the others.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "comm/agree.h"
#include "comm/beating.h"
#include "train/trainer.h"

namespace athanor::train {

Error Trainer::common(const Error& error) const {
  return directory_.leads() ? error : Error(error.code(), "");
}

double Trainer::leaders(double seconds) {
  if (communicator_.rank() != 0) seconds = 0;
  communicator_.all_reduce_sum(Tensor::of(&seconds, {1}));
  return seconds;
}

bool Trainer::stop_requested() {
  int64_t requested = signals_.requested() ? 1 : 0;
  communicator_.all_reduce_sum(Tensor::of(&requested, {1}));
  return requested > 0;
}

bool Trainer::ranks_agree() {
  if (watch_.due(state_.step)) runner_->show_values(*ctx_);
  const RankWatch::Verdict verdict = watch_.compare(state_.step, workspace_->parameters);
  const std::vector<int>& suspects = watch_.suspects();
  if (verdict == RankWatch::Verdict::kStays) {
    throw common(numbers_error(
        fmt::format("step {}: the parameters of {} differ, again after a replay: memory or "
                    "arithmetic there is at fault; {}",
                    state_.step, text_of(suspects), standing())));
  }
  if (verdict != RankWatch::Verdict::kReplay) {
    if (!suspects.empty()) {
      directory_.event("silent corruption", state_.step, {{"ranks", suspects}});
      if (directory_.leads()) {
        log::warning(fmt::format("step {}: the replay shows that {} had wrong parameters",
                                 state_.step, text_of(suspects)));
      }
    }
    return true;
  }
  directory_.event("ranks differ", state_.step, {{"suspects", suspects}});
  const int64_t differed = state_.step;
  communicator_.pulse().enter(comm::Phase::kLoad, state_.step);
  const comm::Beating beating(communicator_);
  // What was saved since they were last known to be equal may hold what is wrong.
  const std::string good = comm::lead(communicator_, [&] {
    checkpoint::abandon(directory_.checkpoints(), watch_.good_step());
    const auto latest = checkpoint::latest_valid(directory_.checkpoints());
    return latest.checkpoint ? latest.checkpoint->path().string() : std::string();
  });
  comm::agree(communicator_, [&] {
    if (good.empty()) {
      draw_weights();
      state_ = RunState();
      guard_.restore(state_.guard);
    } else {
      resume(checkpoint::Checkpoint::open(good));
    }
  });
  directory_.cut_metrics(state_.step);
  if (directory_.leads()) {
    log::warning(
        fmt::format("step {}: the parameters of {} differ from the others'; replaying from step {}",
                    differed, text_of(suspects), state_.step));
  }
  return false;
}

}  // namespace athanor::train
