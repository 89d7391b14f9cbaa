#include "train/budget.h"

#include <algorithm>
#include <cmath>

#include "train/phases.h"

namespace athanor::train {
namespace {

// Shared machines drift; the steps that were measured are few.
constexpr double kMargin = 0.06;
constexpr double kMostDecay = 0.99;  // a schedule that falls all the way has nothing flat to change

int64_t times(int64_t steps, int64_t interval) { return interval > 0 ? steps / interval + 1 : 1; }

double seconds_of(const Config& config, const MeasuredPace& pace) {
  const RunPlan plan(config);
  const bool validates = config.validation.interval_steps > 0;
  return static_cast<double>(plan.tokens()) * pace.seconds_per_token +
         static_cast<double>(times(plan.steps(), config.checkpoint.interval_steps)) *
             pace.seconds_per_checkpoint +
         (validates ? static_cast<double>(times(plan.steps(), config.validation.interval_steps)) *
                          pace.seconds_per_validation
                    : 0.0);
}

Config scaled(const Config& config, double factor) {
  Config out = config;
  for (Phase& phase : out.phases) {
    const double tokens = std::floor(static_cast<double>(phase.tokens) * factor);
    phase.tokens = std::max<int64_t>(1, static_cast<int64_t>(tokens));
  }
  return out;
}

}  // namespace

void fit_to_budget(Config& config, const MeasuredPace& pace) {
  const double budget = (config.run.time_budget_seconds - pace.spent_seconds) * (1 - kMargin);
  // What a run takes rises with the factor; the largest that fits is found by halving.
  double low = 0;
  double high = 1;
  while (seconds_of(scaled(config, high), pace) < budget && high < 1e6) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (seconds_of(scaled(config, middle), pace) <= budget ? low : high) = middle;
  }
  config = scaled(config, low);
  config.run.tokens_fitted = true;
}

int64_t refitted_steps(const optim::Schedule& schedule, int64_t next, double possible) {
  const int64_t planned = schedule.total_steps;
  const double decay = schedule.kind == optim::ScheduleKind::kWsd ? schedule.decay_share : 0.0;
  if (schedule.kind == optim::ScheduleKind::kCosine || decay > kMostDecay ||
      next < schedule.warmup_steps) {
    return planned;
  }
  const auto done = static_cast<double>(next);
  const double flat = static_cast<double>(planned) * (1 - decay);
  if (done > flat) return planned;  // the rate is falling already
  const double fitting = std::floor(done + possible);
  // Ends as early as it can when the rate begins to fall at once.
  const double soonest = std::max(done + 1, std::ceil(done / (1 - decay)));
  if (fitting <= soonest) return static_cast<int64_t>(std::min(soonest, double(planned)));
  const bool ends_early = done + 1 > flat && fitting > static_cast<double>(planned) * 1.01;
  return ends_early ? static_cast<int64_t>(fitting) : planned;
}

}  // namespace athanor::train
