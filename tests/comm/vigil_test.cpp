#include "comm/vigil.h"

#include <gtest/gtest.h>

#include <functional>

namespace athanor::comm {
namespace {

using namespace std::chrono_literals;
using Time = Judgement::Time;

/// A pulse at a moment.
Beat at(uint64_t progress, uint64_t polls, int waits_for = PulseReading::kNobody) {
  return {"in the reduce of step 5", progress, polls, waits_for};
}

/// Runs a vigil of rank 0 of 3 for `seconds` in rounds of 0.2 s; the first faults and when they were found.
std::pair<double, std::vector<Fault>> watch(Vigil& vigil, double seconds,
                                            const std::function<void(double, Time)>& beats) {
  const Time begin = Judgement::Clock::now();
  vigil.begin(begin);
  vigil.set_limit(10);
  for (double passed = 0; passed < seconds; passed += 0.2) {
    const Time now =
        begin + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(passed));
    beats(passed, now);
    std::vector<Fault> faults = vigil.faults(now, true, true);
    if (!faults.empty()) return {passed, faults};
  }
  return {seconds, {}};
}

TEST(Vigil, WhoWorksOrWaitsIsNotSilent) {
  Vigil vigil(0, 3);
  uint64_t n = 0;
  const auto [when, faults] = watch(vigil, 100, [&](double passed, Time now) {
    ++n;
    vigil.beat(0, passed < 30 ? at(n, 0) : at(150, n), now);  // works, then waits
    for (const int peer : {1, 2}) {
      vigil.heard(peer, now);
      vigil.beat(peer, at(n, 0), now);
    }
  });
  EXPECT_TRUE(faults.empty()) << when;
}

TEST(Vigil, SilenceIsFoundWithinTwoSecondsOfTheLimit) {
  Vigil vigil(0, 3);
  uint64_t n = 0;
  const auto [when, faults] = watch(vigil, 100, [&](double passed, Time now) {
    ++n;
    vigil.beat(0, passed < 20 ? at(n, n) : at(100, 100), now);
    for (const int peer : {1, 2}) {
      vigil.heard(peer, now);
      vigil.beat(peer, at(7, n, 0), now);  // they wait for rank 0
    }
  });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::kSilent);
  EXPECT_EQ(faults[0].rank, 0);
  EXPECT_GT(when, 29.9);
  EXPECT_LT(when, 32);
}

TEST(Vigil, SilenceShorterThanTheLimitIsForgotten) {
  Vigil vigil(0, 3);
  const auto [when, faults] = watch(vigil, 60, [&](double passed, Time now) {
    const auto steps = static_cast<uint64_t>(passed / 9.5);  // one beat in 9.5 s
    for (const int rank : {0, 1, 2}) {
      vigil.heard(rank, now);
      vigil.beat(rank, at(steps, 0), now);
    }
  });
  EXPECT_TRUE(faults.empty()) << when;
}

TEST(Vigil, PeerThatIsNotHeardIsNamedWithWhereItWas) {
  Vigil vigil(0, 3);
  uint64_t n = 0;
  const auto [when, faults] = watch(vigil, 100, [&](double passed, Time now) {
    ++n;
    vigil.beat(0, at(n, 0), now);
    vigil.beat(1, at(n, 0), now);
    vigil.heard(1, now);
    if (passed < 20) {
      vigil.heard(2, now);
      vigil.beat(2, at(n, 0), now);
    }
  });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::kUnheard);
  EXPECT_EQ(faults[0].rank, 2);
  EXPECT_EQ(faults[0].place, "in the reduce of step 5");
  EXPECT_TRUE(vigil.lost(2));
  EXPECT_FALSE(vigil.lost(1));
  EXPECT_LT(when, 32);
}

TEST(Vigil, AllWaitingForEachOtherIsFound) {
  Vigil vigil(0, 3);
  uint64_t n = 0;
  const auto [when, faults] = watch(vigil, 100, [&](double passed, Time now) {
    ++n;
    const uint64_t progress = passed < 20 ? n : 100;
    for (const int rank : {0, 1, 2}) {
      vigil.heard(rank, now);
      vigil.beat(rank, at(progress, n, (rank + 1) % 3), now);
    }
  });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::kStuck);
  EXPECT_EQ(faults[0].text, "waits for rank 1");
  EXPECT_LT(when, 33);
}

TEST(Vigil, OwnAbsenceIsNobodysSilence) {
  Vigil vigil(0, 2);
  const Time begin = Judgement::Clock::now();
  vigil.begin(begin);
  vigil.set_limit(10);
  vigil.beat(0, at(1, 1), begin);
  vigil.beat(1, at(1, 1), begin);
  EXPECT_TRUE(vigil.faults(begin, true, true).empty());
  EXPECT_TRUE(
      vigil.faults(begin + 3600s, true, true).empty());  // this process was stopped for an hour
  EXPECT_TRUE(vigil.faults(begin + 3600s + 900ms, true, true).empty());
}

TEST(Vigil, BeatsGoToTheTwoLowestRanksAndFromThemToAll) {
  EXPECT_EQ(Vigil(0, 5).listeners(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(Vigil(1, 5).listeners(), (std::vector<int>{0, 2, 3, 4}));
  EXPECT_EQ(Vigil(3, 5).listeners(), (std::vector<int>{0, 1}));
  EXPECT_EQ(Vigil(1, 2).listeners(), (std::vector<int>{0}));
}

TEST(Vigil, BeatsTravel) {
  const Beat beat = Beat::of(at(7, 9, 3).body());
  EXPECT_EQ(beat.place, "in the reduce of step 5");
  EXPECT_EQ(beat.progress, 7u);
  EXPECT_EQ(beat.polls, 9u);
  EXPECT_EQ(beat.waits_for, 3);
}

}  // namespace
}  // namespace athanor::comm
