#include "optim/schedule.h"

#include <algorithm>
#include <numbers>

#include "base/math.h"

namespace athanor::optim {

double learning_rate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.kind == ScheduleKind::kConstant) return schedule.peak;
  if (step >= schedule.total_steps) return schedule.final;
  const auto total = static_cast<double>(schedule.total_steps);
  const double span = schedule.peak - schedule.final;
  if (schedule.kind == ScheduleKind::kCosine) {
    const auto warmup = static_cast<double>(schedule.warmup_steps);
    const double angle = std::numbers::pi * (static_cast<double>(step) - warmup) / (total - warmup);
    return schedule.final + span / 2 * (1 + math::cos(angle));
  }
  // The decay never reaches into the warm-up: a short phase decays over what the warm-up leaves.
  const double decay =
      std::min(schedule.decay_share * total, total - static_cast<double>(schedule.warmup_steps));
  const double into = static_cast<double>(step) - (total - decay);
  return into <= 0 ? schedule.peak : schedule.peak - span * into / decay;
}

}  // namespace athanor::optim
