#include "comm/pulse.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

namespace athanor::comm {
namespace {

TEST(Pulse, OfAWorldOfOneTellsWhatWasEntered) {
  Pulse pulse;
  EXPECT_EQ(pulse.read().phase, Phase::kStart);
  EXPECT_EQ(pulse.read().place(), "in the start");
  EXPECT_EQ(pulse.read().waits_for, PulseReading::kNobody);
  pulse.enter(Phase::kBackward, 12);
  const PulseReading reading = pulse.read();
  EXPECT_EQ(reading.phase, Phase::kBackward);
  EXPECT_EQ(reading.step, 12);
  EXPECT_EQ(reading.progress, 1u);
  EXPECT_EQ(reading.place(), "in the backward of step 12");
}

TEST(Pulse, WorkAndWaitingAreToldApart) {
  Pulse pulse;
  pulse.beat();
  pulse.beat();
  EXPECT_EQ(pulse.read().progress, 2u);
  EXPECT_EQ(pulse.read().polls, 0u);
  pulse.waiting(0);
  EXPECT_EQ(pulse.read().progress, 2u);
  EXPECT_EQ(pulse.read().polls, 1u);
  EXPECT_EQ(pulse.read().waits_for, 0);
  pulse.waiting();
  EXPECT_EQ(pulse.read().waits_for, PulseReading::kAny);
  pulse.beat();
  EXPECT_EQ(pulse.read().waits_for, PulseReading::kNobody);
}

TEST(Pulse, AnotherProcessSeesThePage) {
  const int fd = Pulse::new_page();
  const Pulse seen(fd);
  const pid_t child = fork();
  if (child == 0) {
    Pulse pulse(fd);
    pulse.enter(Phase::kSave, int64_t{1} << 40);
    pulse.waiting(7);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(fd);
  EXPECT_EQ(seen.read().phase, Phase::kSave);
  EXPECT_EQ(seen.read().step, int64_t{1} << 40);
  EXPECT_EQ(seen.read().waits_for, 7);
}

TEST(Pulse, NoBeatOfTwoThreadsIsLost) {
  Pulse pulse;
  const auto beat = [&] {
    for (int i = 0; i < 100000; ++i) pulse.beat();
  };
  std::thread other(beat);
  beat();
  other.join();
  EXPECT_EQ(pulse.read().progress, 200000u);
}

TEST(Pulse, EveryPhaseHasItsName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kPhases; ++i) names.insert(name_of(static_cast<Phase>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kPhases));
  EXPECT_EQ(name_of(static_cast<Phase>(kPhases)), "unknown phase");
  EXPECT_EQ(names.count("unknown phase"), 0u);
}

}  // namespace
}  // namespace athanor::comm
