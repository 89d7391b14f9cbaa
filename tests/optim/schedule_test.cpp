#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace athanor::optim {
namespace {

TEST(Schedule, CosineIsTheFormulaOfTheReferenceRun) {
  const Schedule schedule{ScheduleKind::kCosine, 3e-3, 1e-3, 5, 30, 0};
  for (int s = 0; s < 30; ++s) {
    const double expected =
        s < 5 ? 3e-3 * (s + 1) / 5 : 1e-3 + 1e-3 * (1 + std::cos(M_PI * (s - 5) / 25));
    EXPECT_NEAR(learning_rate(schedule, s), expected, 1e-17) << s;
  }
  EXPECT_EQ(learning_rate(schedule, 30), 1e-3);
}

TEST(Schedule, ConstantStaysAtThePeakAfterTheWarmUp) {
  const Schedule schedule{ScheduleKind::kConstant, 2e-3, 0, 4, 10, 0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 2e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 2e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 2e-3);
}

TEST(Schedule, WsdIsFlatAndThenAStraightLine) {
  const Schedule schedule{ScheduleKind::kWsd, 1.0, 0.2, 10, 100, 0.4};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 1.0);  // the decay has 40 steps
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 80), 0.6);
  EXPECT_NEAR(learning_rate(schedule, 99), 0.2 + 0.8 / 40, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.2);
}

TEST(Schedule, WsdDecayNeverReachesIntoTheWarmUp) {
  const Schedule schedule{ScheduleKind::kWsd, 1.0, 0.0, 8, 10, 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 7), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 8), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 0.5);
}

TEST(Schedule, AWarmUpLongerThanThePhaseOnlyWarmsUp) {
  for (const auto kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kWsd}) {
    const Schedule schedule{kind, 1.0, 0.1, 20, 10, 0.3};
    for (int s = 0; s < 10; ++s) EXPECT_DOUBLE_EQ(learning_rate(schedule, s), (s + 1) / 20.0);
  }
}

}  // namespace
}  // namespace athanor::optim
