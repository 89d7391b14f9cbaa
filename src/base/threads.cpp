#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/thread_limit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace athanor {
namespace {

/// The whole cores that a cgroup v2 CPU quota allows, or 0 without a quota.
int cgroup_cores() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::strtod(quota.c_str(), nullptr) / period));
}

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls `ready` for about the time that separates two ops of a step, after which sleeping is cheaper than waiting.
template <class Ready>
bool spin_until(Ready ready) {
  constexpr auto kPatience = std::chrono::microseconds(50);
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() - start < kPatience);
  return ready();
}

/// One call of Threads::run.
struct Job {
  FunctionRef<void(int64_t, int)> task;
  int64_t tasks = 0;
  int team = 0;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure{};

  void work(int thread) {
    try {
      for (int64_t i = next.fetch_add(1); i < tasks && !failed.load(std::memory_order_relaxed);
           i = next.fetch_add(1)) {
        task(i, thread);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
};

std::atomic<int> thread_limit{0};  // 0: none

thread_local int current_thread = -1;  // the number within the team while a job's task runs

/// The process's workers. OpenMP's barriers make the whole team wait for a thread that the system has descheduled; here the
/// caller waits only for workers that are inside a task, so that a busy machine costs its share of time and no more.
///
/// `word_` holds [generation | open | workers inside]. A worker enters by raising the count while the word is open; the
/// caller closes it when no task is left and waits for the count to fall to zero. A worker that comes late finds it closed.
class Pool {
 public:
  /// Never destroyed: workers may still be asleep in it while the process ends.
  static Pool& instance() {
    static Pool* pool = new Pool;
    return *pool;
  }

  /// Runs the job if no other thread of the program is running one.
  bool try_run(Job& job) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    while (workers_ < job.team - 1) {
      try {
        std::thread([this, thread = workers_ + 1] { serve(thread); }).detach();
      } catch (const std::system_error& error) {
        throw system_error(error.code().value(), "start", "a worker thread", ExitCode::kResources);
      }
      ++workers_;
    }
    job_ = &job;
    word_.store(((word_.load(std::memory_order_relaxed) >> kGenerationShift) + 1)
                        << kGenerationShift |
                    kOpen,
                std::memory_order_seq_cst);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();

    current_thread = 0;
    job.work(0);
    current_thread = -1;

    word_.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto empty = [this] { return (word_.load(std::memory_order_acquire) & kInside) == 0; };
    if (!spin_until(empty)) {
      for (int seen = left_.load(); !empty(); seen = left_.load()) left_.wait(seen);
    }
    return true;
  }

 private:
  static constexpr int kGenerationShift = 32;
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kOpen - 1;

  /// Enters the open job of another generation than `seen`; false when there is none.
  bool enter(uint64_t& seen) {
    uint64_t word = word_.load(std::memory_order_acquire);
    while ((word & kOpen) != 0 && (word >> kGenerationShift) != seen) {
      if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel)) {
        seen = word >> kGenerationShift;
        return true;
      }
    }
    return false;
  }

  void leave() {
    const uint64_t before = word_.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kInside) == 1 && (before & kOpen) == 0) {
      left_.fetch_add(1);
      left_.notify_one();
    }
  }

  void serve(int thread) {
    uint64_t seen = 0;
    while (true) {
      if (!spin_until([&] { return enter(seen); })) {
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        const int epoch = epoch_.load(std::memory_order_seq_cst);
        const bool entered = enter(seen);
        if (!entered) epoch_.wait(epoch);
        asleep_.fetch_sub(1);
        if (!entered) continue;
      }
      if (thread < job_->team) {
        current_thread = thread;
        job_->work(thread);
        current_thread = -1;
      }
      leave();
    }
  }

  std::mutex busy_;
  int workers_ = 0;     // guarded by busy_
  Job* job_ = nullptr;  // published by word_
  std::atomic<uint64_t> word_{0};
  std::atomic<int> epoch_{0};  // what sleepers wait on
  std::atomic<int> asleep_{0};
  std::atomic<int> left_{0};  // what a caller waits on
};

}  // namespace

int allowed_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int n = std::atoi(text);
    if (n >= 1) return std::min(n, 1024);
  }
  cpu_set_t set;
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  if (const int quota = cgroup_cores(); quota > 0) cores = std::min(quota, cores);
  if (const int limit = thread_limit.load(); limit > 0) cores = std::min(limit, cores);
  return cores;
}

void limit_threads(int count) { thread_limit.store(std::max(1, count)); }

Threads::Threads(int count) : count_(std::max(1, count)) {}

void Threads::run(int64_t tasks, FunctionRef<void(int64_t, int)> task) const {
  const int team = static_cast<int>(std::min<int64_t>(count_, tasks));
  if (team > 1 && current_thread < 0) {
    Job job{.task = task, .tasks = tasks, .team = team};
    if (Pool::instance().try_run(job)) {
      if (job.failure) std::rethrow_exception(job.failure);
      return;
    }
  }
  const int thread = std::clamp(current_thread, 0, count_ - 1);
  for (int64_t i = 0; i < tasks; ++i) task(i, thread);
}

}  // namespace athanor
