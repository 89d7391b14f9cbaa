#include "comm/judgement.h"

#include <gtest/gtest.h>

#include <csignal>

namespace athanor::comm {
namespace {

using namespace std::chrono_literals;
using Time = Judgement::Time;

const Time kStart = Time() + 1000s;

Judgement of_ranks(int ranks) {
  std::vector<std::string> hosts;
  for (int i = 0; i < ranks; ++i)
    hosts.push_back(std::string(1, 'n').append(std::to_string(i / 2)));
  return Judgement(hosts);
}

WorkerExit ended(int rank, int code, const std::string& text = "") {
  return {rank, code, "in the save of step 9", text};
}

Fault killed(int rank, int signal = SIGKILL) {
  return {.kind = Fault::Kind::kSignal,
          .rank = rank,
          .number = signal,
          .place = "in the backward of step 12"};
}

TEST(Judgement, AllWithOneCodeEndWithIt) {
  for (const int code : {0, 2, 3, 4, 5, 6, 7, 70}) {
    Judgement judgement = of_ranks(3);
    judgement.exited(ended(2, code, "third"), kStart);
    judgement.exited(ended(0, code, "first"), kStart + 1s);
    EXPECT_FALSE(judgement.outcome(kStart + 1s)) << "rank 1 has not ended";
    judgement.exited(ended(1, code, "second"), kStart + 2s);
    const auto outcome = judgement.outcome(kStart + 2s);
    ASSERT_TRUE(outcome) << code;
    EXPECT_EQ(outcome->code, code);
    EXPECT_EQ(outcome->line, "first");
    EXPECT_FALSE(judgement.faulty());
  }
}

TEST(Judgement, RanksThatAreDoneWaitForTheOthersAsLongAsTheyTake) {
  for (const int code : {0, 7}) {
    Judgement judgement = of_ranks(2);
    judgement.exited(ended(1, code), kStart);
    EXPECT_FALSE(judgement.outcome(kStart + 1000s)) << code;
  }
}

TEST(Judgement, CodeOfOneIsAFaultAfterAWhile) {
  Judgement judgement = of_ranks(4);
  judgement.exited(ended(3, 6, "the disk is full"), kStart);
  EXPECT_FALSE(judgement.outcome(kStart + 1s));
  EXPECT_FALSE(judgement.faulty());
  EXPECT_FALSE(judgement.outcome(kStart + 4s));  // a likelier cause may still come
  EXPECT_TRUE(judgement.hopeless());
  const auto outcome = judgement.outcome(kStart + 5s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_EQ(outcome->line,
            "rank 3 on host n1 ended with code 6 in the save of step 9, its peers did not: the "
            "disk is full");
}

TEST(Judgement, CodesThatDifferAreAFaultAtOnce) {
  Judgement judgement = of_ranks(2);
  judgement.exited(ended(0, 0), kStart);
  judgement.exited(ended(1, 6, "full"), kStart + 1s);
  EXPECT_TRUE(judgement.faulty());
  const auto outcome = judgement.outcome(kStart + 2s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_TRUE(outcome->line.starts_with("rank 1 on host n0 ended with code 6")) << outcome->line;
}

TEST(Judgement, DeathNamesRankHostSignalAndPhase) {
  Judgement judgement = of_ranks(8);
  judgement.add(killed(3), kStart);
  EXPECT_TRUE(judgement.hopeless());
  EXPECT_FALSE(judgement.outcome(kStart));
  const auto outcome = judgement.outcome(kStart + 1s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, 4);
  EXPECT_EQ(outcome->line, "rank 3 on host n1 was killed by SIGKILL in the backward of step 12");
}

TEST(Judgement, ConsequencesAreNotTheCause) {
  // Peers see a broken transfer, or their library aborts, before the news of the death itself is here.
  Judgement judgement = of_ranks(4);
  judgement.exited(ended(1, 4, "receiving from rank 3 failed"), kStart);
  judgement.exited(ended(0, 4, "receiving from rank 3 failed"), kStart + 100ms);
  judgement.add(killed(2, SIGABRT), kStart + 150ms);
  judgement.add(killed(3), kStart + 200ms);
  const auto outcome = judgement.outcome(kStart + 3s);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->line, "rank 3 on host n1 was killed by SIGKILL in the backward of step 12");
}

TEST(Judgement, TwoAtOnceAreBothNamed) {
  Judgement judgement = of_ranks(4);
  judgement.add(killed(2), kStart + 1ms);
  judgement.add(killed(1, SIGSEGV), kStart);
  judgement.add(killed(1, SIGSEGV), kStart + 2ms);
  EXPECT_EQ(judgement.outcome(kStart + 1s)->line,
            "rank 1 on host n0 was killed by SIGSEGV in the backward of step 12; lost, too: rank 2 "
            "(SIGKILL)");
}

TEST(Judgement, LostParentIsSaidAtOnce) {
  Judgement judgement = of_ranks(2);
  judgement.add({.kind = Fault::Kind::kParentLost, .rank = 1, .place = "in the reduce of step 3"},
                kStart);
  ASSERT_TRUE(judgement.outcome(kStart));
  EXPECT_EQ(judgement.outcome(kStart)->line,
            "rank 1 on host n0 was lost with its parent process in the reduce of step 3");
}

TEST(Judgement, FaultsAndExitsTravel) {
  Fault fault = killed(5, SIGSEGV);
  fault.seconds = 61.5;
  fault.text = "note";
  const Fault back = Fault::of(fault.body());
  EXPECT_EQ(back.kind, fault.kind);
  EXPECT_EQ(back.rank, 5);
  EXPECT_EQ(back.number, SIGSEGV);
  EXPECT_EQ(back.seconds, 61.5);
  EXPECT_EQ(back.place, fault.place);
  EXPECT_EQ(back.text, "note");
  const WorkerExit one = WorkerExit::of(ended(3, 70, "bug").body());
  EXPECT_EQ(one.rank, 3);
  EXPECT_EQ(one.code, 70);
  EXPECT_EQ(one.text, "bug");
}

}  // namespace
}  // namespace athanor::comm
