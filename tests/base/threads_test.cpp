#include "base/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace athanor {
namespace {

/// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    had_ = std::getenv(name) != nullptr;
    if (value != nullptr) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~Environment() {
    if (had_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

TEST(Threads, RunsEveryTaskOnceOnAThreadOfTheTeam) {
  for (const int count : {1, 2, 3, 8}) {
    const Threads threads(count);
    EXPECT_EQ(threads.count(), count);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> strangers{0};
      threads.run(tasks, [&](int64_t task, int thread) {
        ++runs[static_cast<size_t>(task)];
        if (thread < 0 || thread >= count) ++strangers;
      });
      for (const auto& n : runs) EXPECT_EQ(n.load(), 1);
      EXPECT_EQ(strangers.load(), 0);
    }
  }
}

TEST(Threads, TwoTasksRunAtTheSameTime) {
  const Threads threads(2);
  std::atomic<int> arrived{0};
  threads.run(2, [&](int64_t, int) {  // each waits for the other; a serial run would never end
    ++arrived;
    while (arrived.load() < 2) sched_yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(Threads, NoTwoTasksShareAThreadsScratchAtOnce) {
  const Threads threads(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> clashes{0};
  threads.run(2000, [&](int64_t, int thread) {
    auto& mine = inside[static_cast<size_t>(thread)];
    if (mine.fetch_add(1) != 0) ++clashes;
    mine.fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

TEST(Threads, NestedRunsAreSerialAndKeepTheThread) {
  const Threads threads(3);
  std::atomic<int> ran{0};
  std::atomic<int> moved{0};
  std::atomic<int> arrived{0};
  threads.run(3, [&](int64_t, int outer) {
    ++arrived;
    while (arrived.load() < 3) sched_yield();  // so that every thread of the team has a task
    threads.run(5, [&](int64_t, int inner) {
      ++ran;
      if (inner != outer) ++moved;
    });
  });
  EXPECT_EQ(ran.load(), 15);
  EXPECT_EQ(moved.load(), 0);
}

TEST(Threads, AnExceptionReachesTheCallerAndTheTeamWorksOn) {
  for (const int count : {1, 4}) {
    const Threads threads(count);
    EXPECT_THROW(threads.run(100,
                             [](int64_t task, int) {
                               if (task == 42) throw std::runtime_error("task 42");
                             }),
                 std::runtime_error);
    std::atomic<int> ran{0};
    threads.run(10, [&](int64_t, int) { ++ran; });
    EXPECT_EQ(ran.load(), 10);
  }
}

TEST(Threads, AtLeastOne) {
  EXPECT_EQ(Threads(0).count(), 1);
  EXPECT_EQ(Threads(-5).count(), 1);
}

TEST(AllowedThreads, FollowOmpNumThreads) {
  {
    const Environment set("OMP_NUM_THREADS", "3");
    EXPECT_EQ(allowed_threads(), 3);
  }
  const Environment none("OMP_NUM_THREADS", nullptr);
  const int by_cores = allowed_threads();
  EXPECT_GE(by_cores, 1);
  for (const char* nonsense : {"", "none", "0", "-2"}) {
    const Environment set("OMP_NUM_THREADS", nonsense);
    EXPECT_EQ(allowed_threads(), by_cores) << nonsense;
  }
}

TEST(AllowedThreads, FollowTheAffinityMask) {
  const Environment none("OMP_NUM_THREADS", nullptr);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_threads(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Threads, ASystemWithoutMoreThreadsIsAResourceError) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);  // no address space holds it
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const Threads threads(800);  // more than any other test has started
  try {
    threads.run(800, [](int64_t, int) {});
    ADD_FAILURE() << "threads were started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kResources) << error.what();
  }
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  std::atomic<int64_t> sum{0};
  Threads(3).run(100, [&](int64_t i, int) { sum += i; });
  EXPECT_EQ(sum, 4950);
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> reference = count;
  EXPECT_EQ(reference(2), 2);
  EXPECT_EQ(reference(3), 5);
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace athanor
