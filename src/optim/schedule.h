// Learning rates as a pure function of the step.
#pragma once

#include <cstdint>

namespace athanor::optim {

enum class ScheduleKind : uint8_t {
  kConstant,  ///< peak after the warm-up
  kCosine,    ///< half a cosine from peak to final
  kWsd,  ///< warm-up, stable, decay: peak, then a straight line to final over the last decay_share
         ///< of the steps
};

/// The learning rate of one phase. Steps are counted inside the phase, from 0.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0;
  double final = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double decay_share = 0.2;  ///< of total_steps; wsd alone
};

/// Warm-up W, total S: peak·(s+1)/W for s < W; then, for the cosine, final + (peak−final)/2·(1 +
/// cos(π(s−W)/(S−W))) (golden/README "Train"). Steps at or past S give `final` (peak for the
/// constant schedule).
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace athanor::optim
