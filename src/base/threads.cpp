#include "base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

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

}  // namespace

int allowed_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int n = std::atoi(text);
    if (n >= 1) return std::min(n, 1024);
  }
  cpu_set_t set;
  int cores = std::max(1, omp_get_num_procs());
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  const int quota = cgroup_cores();
  return quota > 0 ? std::min(quota, cores) : cores;
}

Threads::Threads(int count) : count_(std::max(1, count)) {}

void Threads::run(int64_t tasks, FunctionRef<void(int64_t, int)> task) const {
  const int team = static_cast<int>(std::min<int64_t>(count_, tasks));
  if (team <= 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < tasks; ++i) task(i, omp_in_parallel() ? omp_get_thread_num() : 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(team)
  {
    const int thread = omp_get_thread_num();
    try {
      for (int64_t i = next.fetch_add(1); i < tasks && !failed.load(std::memory_order_relaxed);
           i = next.fetch_add(1)) {
        task(i, thread);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace athanor
