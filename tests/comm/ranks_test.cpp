// Real ranks under both launchers, and what becomes of all when something happens to one. Upper limits of time are those of the
// contract (all have ended within 10 s), never of this machine's speed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/files.h"
#include "comm/lab.h"

namespace athanor::comm::test {
namespace {

using namespace std::chrono_literals;

struct Pids {
  pid_t worker = 0, parent = 0;
};

/// rank_program play under a launcher.
class Play {
 public:
  Play(const Mpi& mpi, int ranks, std::vector<std::string> arguments,
       const std::vector<std::string>& environment = {})
      : ranks_(ranks) {
    arguments.insert(arguments.begin(), {"play", "folder=" + folder_.path().string()});
    command_ = std::make_unique<Command>(launch_words(mpi, ranks, arguments), environment);
  }

  /// Of all ranks, once they have met.
  std::vector<Pids> pids() const {
    std::vector<Pids> all(static_cast<size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      const fs::path path = folder_ / ("rank-" + std::to_string(rank));
      EXPECT_TRUE(eventually([&] { return fs::exists(path); })) << command_->said();
      std::istringstream(read_file(path)) >> all[static_cast<size_t>(rank)].worker >>
          all[static_cast<size_t>(rank)].parent;
    }
    return all;
  }

  int wait(std::chrono::seconds limit = 30s) { return command_->wait(limit); }
  Command& command() { return *command_; }
  std::string said() const { return command_->said(); }

  /// The lines that ranks have said as errors.
  std::vector<std::string> errors() const {
    std::vector<std::string> lines;
    std::istringstream in(command_->err());
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("athanor: ")) lines.push_back(line.substr(9));
    }
    return lines;
  }

 private:
  athanor::test::ScratchFolder folder_;
  int ranks_;
  std::unique_ptr<Command> command_;
};

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

bool full() { return std::getenv("ATHANOR_TEST_FULL") != nullptr; }

bool gone(pid_t pid) { return kill(pid, 0) != 0; }

void expect_all_gone(const std::vector<Pids>& pids) {
  EXPECT_TRUE(eventually(
      [&] {
        return std::ranges::all_of(pids,
                                   [](const Pids& p) { return gone(p.worker) && gone(p.parent); });
      },
      10s));
}

void expect_one_error(Play& play, const std::string& line) {
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  EXPECT_EQ(play.errors()[0], line) << play.said();
}

class RanksOver : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() >= static_cast<int>(available_mpis().size())) GTEST_SKIP() << kNoMpi;
  }
  const Mpi& mpi() const { return available_mpis()[static_cast<size_t>(GetParam())]; }
};

/// What does not depend on the launcher: under one of them, and under both with scripts/test --full.
class RanksOverOne : public RanksOver {
 protected:
  void SetUp() override {
    RanksOver::SetUp();
    const bool last = GetParam() + 1 == static_cast<int>(available_mpis().size());
    if (!IsSkipped() && !last && !full())
      GTEST_SKIP() << "LONG: scripts/test --full tries this MPI, too";
  }
};
INSTANTIATE_TEST_SUITE_P(EachMpi, RanksOverOne, testing::Values(0, 1));
INSTANTIATE_TEST_SUITE_P(EachMpi, RanksOver, testing::Values(0, 1));

TEST_P(RanksOver, RunToTheEndAndOneSpeaks) {
  Play play(mpi(), 3, {});
  EXPECT_EQ(play.wait(), 0) << play.said();
  EXPECT_EQ(play.command().out(), "saved step 20\n");
  EXPECT_TRUE(play.errors().empty()) << play.said();
}

TEST_P(RanksOver, WorkerKilledIsNamedWithHostSignalAndPhase) {
  Play play(mpi(), 3, {"at=1:backward:5:signal=9"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_one_error(play,
                   "rank 1 on host " + host() + " was killed by SIGKILL in the backward of step 5");
  EXPECT_EQ(play.command().out(), "");
}

TEST_P(RanksOver, RankZeroKilled) {
  Play play(mpi(), 3, {"at=0:reduce:3:signal=11"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_one_error(play,
                   "rank 0 on host " + host() + " was killed by SIGSEGV in the reduce of step 3");
}

TEST_P(RanksOverOne, TwoAtOnce) {
  Play play(mpi(), 4, {"at=1:gather:4:signal=9", "at=2:gather:4:signal=9"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  const std::string line = play.errors()[0];
  EXPECT_TRUE(line.starts_with("rank 1 on host") || line.starts_with("rank 2 on host")) << line;
  // The second is named, too, where its end was known when the first one's was told.
  const std::string death = "was killed by SIGKILL in the gather of step 4";
  const size_t end = line.find(death);
  ASSERT_NE(end, std::string::npos) << line;
  const std::string more = line.substr(end + death.size());
  EXPECT_TRUE(more.empty() || more.starts_with("; lost, too: rank 1") ||
              more.starts_with("; lost, too: rank 2"))
      << line;
}

TEST_P(RanksOver, ParentKilledTakesItsWorkerAndEndsAll) {
  Play play(mpi(), 3, {"steps=100000"});
  const std::vector<Pids> pids = play.pids();
  kill(pids[1].parent, SIGKILL);
  EXPECT_NE(play.wait(), 0);
  expect_all_gone(pids);
  // Open MPI leaves time to say it; hydra kills the others at once and says itself which process was lost.
  if (mpi().name == "openmpi" || !play.errors().empty()) {
    ASSERT_EQ(play.errors().size(), 1u) << play.said();
    EXPECT_TRUE(
        play.errors()[0].starts_with("rank 1 on host " + host() + " was lost with its parent"))
        << play.said();
  } else {
    EXPECT_NE(play.said().find("BAD TERMINATION"), std::string::npos) << play.said();
  }
}

TEST_P(RanksOver, LauncherKilledLeavesNobody) {
  Play play(mpi(), 2, {"steps=100000"});
  const std::vector<Pids> pids = play.pids();
  kill(play.command().pid(), SIGKILL);
  play.wait();
  expect_all_gone(pids);
}

TEST_P(RanksOverOne, StoppedAndContinuedCostsNothingButTime) {
  Play play(mpi(), 3, {"steps=200"});
  const std::vector<Pids> pids = play.pids();
  kill(pids[1].worker, SIGSTOP);
  sleep(full() ? 8 : 2);
  EXPECT_TRUE(play.command().running());
  kill(pids[1].worker, SIGCONT);
  EXPECT_EQ(play.wait(), 0) << play.said();
  EXPECT_EQ(play.command().out(), "saved step 200\n");
  EXPECT_TRUE(play.errors().empty()) << play.said();
}

/// "… silent for N s …": N must be the limit or at most 2 more.
void expect_silence(Play& play, int rank, const std::string& place, bool stopped) {
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  const std::string line = play.errors()[0];
  const std::string begin =
      "rank " + std::to_string(rank) + " on host " + host() + " has been silent for ";
  ASSERT_TRUE(line.starts_with(begin)) << line;
  const int seconds = std::stoi(line.substr(begin.size()));
  EXPECT_GE(seconds, 2);
  EXPECT_LE(seconds, 4);
  EXPECT_NE(line.find(place), std::string::npos) << line;
  EXPECT_EQ(line.ends_with(": it is stopped (SIGSTOP)"), stopped) << line;
}

TEST_P(RanksOverOne, StoppedForEverIsSilenceOfTheStoppedRank) {
  Play play(mpi(), 3, {"limit=2", "at=2:forward:6:signal=19"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_silence(play, 2, "in the forward of step 6", true);
}

TEST_P(RanksOverOne, BusyLoopIsSilenceWhileItsPeersWait) {
  Play play(mpi(), 3, {"limit=2", "at=0:optimizer:6:loop"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_silence(play, 0, "in the optimizer of step 6", false);
}

TEST_P(RanksOverOne, RankWithItsParentStoppedIsNotHeard) {
  Play play(mpi(), 3, {"steps=100000", "limit=2"});
  const std::vector<Pids> pids = play.pids();
  kill(pids[1].parent, SIGSTOP);
  kill(pids[1].worker, SIGSTOP);
  // Open MPI ends stopped processes with the rest; hydra waits for their exit codes.
  EXPECT_TRUE(eventually([&] { return !play.errors().empty(); })) << play.said();
  kill(pids[1].parent, SIGKILL);
  EXPECT_NE(play.wait(), 0);
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  EXPECT_TRUE(play.errors()[0].starts_with("nothing was heard of rank 1 on host " + host()))
      << play.said();
  expect_all_gone(pids);
}

TEST_P(RanksOverOne, AllWaitingForEachOtherEnds) {
  Play play(mpi(), 2, {"limit=2", "at=1:reduce:6:wait"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  EXPECT_TRUE(play.errors()[0].starts_with("no rank has got on for ")) << play.said();
  EXPECT_NE(play.errors()[0].find("waits for rank "), std::string::npos) << play.said();
}

TEST_P(RanksOver, CodeOfAllIsTheLaunchersCode) {
  for (const std::string code : {"2", "7"}) {
    Play play(mpi(), 2, {"at=-1:data:3:error=" + code});
    EXPECT_EQ(play.wait(), std::stoi(code)) << play.said();
    expect_one_error(play, "told to end with " + code);
  }
}

TEST_P(RanksOver, EveryCodePassesThrough) {
  if (std::getenv("ATHANOR_TEST_FULL") == nullptr)
    GTEST_SKIP() << "LONG: scripts/test --full tries all codes";
  for (const std::string code : {"3", "4", "5", "6", "70"}) {
    Play play(mpi(), 2, {"at=-1:data:3:error=" + code});
    EXPECT_EQ(play.wait(), std::stoi(code)) << play.said();
    expect_one_error(play, "told to end with " + code);
  }
}

TEST_P(RanksOverOne, CodeOfOneAloneIsAPeersFailureThatTellsWhy) {
  Play play(mpi(), 3, {"at=2:data:3:error=3"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_one_error(
      play, "rank 2 on host " + host() +
                " ended with code 3 in the data of step 3, its peers did not: told to end with 3");
}

TEST_P(RanksOver, WorkerThatDiesBeforeMpiEndsAll) {
  Play play(mpi(), 2, {"at=1:start:0:signal=9"});
  const int code = play.wait(20s);
  EXPECT_GT(code, 0) << play.said();
  expect_one_error(play, "rank 1 on host " + host() + " was killed by SIGKILL in the start");
}

TEST_P(RanksOver, StopOfASchedulerIsTakenOnceByEachRank) {
  Play play(mpi(), 2, {"steps=100000", "pause=100"});
  const std::vector<Pids> pids = play.pids();
  // Slurm signals every process of a job, parents and workers alike.
  for (const Pids& one : pids) {
    kill(one.worker, SIGTERM);
    kill(one.parent, SIGTERM);
    usleep(20'000);
    kill(one.worker, SIGTERM);
  }
  EXPECT_EQ(play.wait(), 7) << play.said();
  EXPECT_TRUE(play.command().out().starts_with("saved step ")) << play.said();
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  EXPECT_TRUE(play.errors()[0].starts_with("stopped in order at step ")) << play.said();
}

TEST_P(RanksOver, StopOfOneRankStopsAll) {
  Play play(mpi(), 2, {"steps=100000"});
  kill(play.pids()[1].parent, SIGTERM);
  EXPECT_EQ(play.wait(), 7) << play.said();
  EXPECT_TRUE(play.command().out().starts_with("saved step ")) << play.said();
}

TEST_P(RanksOver, StopThatFollowsADeathSavesNothing) {
  Play play(mpi(), 3, {"steps=100000"});
  const std::vector<Pids> pids = play.pids();
  kill(pids[2].worker, SIGKILL);
  for (const Pids& one : pids) kill(one.parent, SIGTERM);
  EXPECT_EQ(play.wait(), 4) << play.said();
  EXPECT_EQ(play.command().out(), "");
  ASSERT_EQ(play.errors().size(), 1u) << play.said();
  EXPECT_TRUE(
      play.errors()[0].starts_with("rank 2 on host " + host() + " was killed by SIGKILL in the "))
      << play.said();
}

TEST_P(RanksOverOne, SecondStopEndsAtOnce) {
  Play play(mpi(), 2, {"steps=100000", "pause=1000"});
  const std::vector<Pids> pids = play.pids();
  for (int i = 0; i < 2; ++i) {
    for (const Pids& one : pids) kill(one.parent, SIGTERM);
    usleep(600'000);
  }
  EXPECT_EQ(play.wait(), 7) << play.said();
  EXPECT_EQ(play.command().out(), "") << "nothing was saved";
  expect_one_error(play, "ended by SIGTERM");
}

TEST(Parent, EndOfOneIsTheEndOfItsWorker) {
  // No launcher that would clear up: only what it would tell.
  Command command({ATHANOR_RANK_PROGRAM, "play", "at=0:start:0:loop"},
                  {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0",
                   "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0"});
  const std::string parent = std::to_string(command.pid());
  pid_t worker = 0;
  ASSERT_TRUE(eventually([&] {
    std::ifstream("/proc/" + parent + "/task/" + parent + "/children") >> worker;
    return worker > 0;
  }));
  usleep(300'000);  // past exec
  EXPECT_FALSE(gone(worker));
  kill(command.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return gone(worker); }, 10s));
}

/// Every phase, by the launcher that is quick to end.
class PhaseOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EachPhase, PhaseOver,
                         testing::Values("data", "forward", "reduce", "optimizer", "gather", "save",
                                         "end"));

TEST_P(PhaseOver, IsNamed) {
  if (available_mpis().empty()) GTEST_SKIP() << kNoMpi;
  const std::string phase = GetParam();
  const std::string step = phase == "save" || phase == "end" ? "21" : "7";
  Play play(available_mpis().back(), 2, {"at=1:" + phase + ":" + step + ":signal=9"});
  EXPECT_EQ(play.wait(), 4) << play.said();
  expect_one_error(play, "rank 1 on host " + host() + " was killed by SIGKILL in the " + phase +
                             " of step " + step);
}

}  // namespace
}  // namespace athanor::comm::test
