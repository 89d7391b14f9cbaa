#include "advisor/memory_rate.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "advisor/ceilings.h"
#include "base/error.h"
#include "base/log.h"

namespace athanor::advisor {
namespace {

using Clock = std::chrono::steady_clock;
using ops::MemoryAccess;

constexpr std::array kAccesses = {MemoryAccess::kRead, MemoryAccess::kWrite, MemoryAccess::kStream,
                                  MemoryAccess::kCopy, MemoryAccess::kStreamCopy};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

MemoryRates measure_memory_rates(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw usage_error(fmt::format("--seconds {} must be above 0", seconds));
  }
  Arena arena("buffer"), scratch("scratch");
  const size_t bytes = beyond_caches();
  arena.reserve(bytes);
  const Tensor buffer = arena.tensor(DType::kF32, {static_cast<int64_t>(bytes / sizeof(float))});
  const ops::Context one(Threads(1), scratch), all(Threads(), scratch);
  ops::measure_memory_pass(all, MemoryAccess::kWrite, buffer);  // gives every page its memory

  struct Samples {
    std::vector<double> one, all;
  };
  std::array<Samples, kAccesses.size()> samples;
  MemoryRates result;
  result.bytes = bytes;
  result.threads = all.threads().count();
  result.isa = all.isa();
  log::Progress progress("bench memory", "ms", static_cast<int64_t>(seconds * 1000));
  const Clock::time_point start = Clock::now();
  do {
    for (size_t i = 0; i < kAccesses.size(); ++i) {
      samples[i].one.push_back(ops::measure_memory_pass(one, kAccesses[i], buffer));
      samples[i].all.push_back(ops::measure_memory_pass(all, kAccesses[i], buffer));
    }
    ++result.rounds;
    progress.update(static_cast<int64_t>(seconds_since(start) * 1000));
  } while (seconds_since(start) < seconds);
  for (size_t i = 0; i < kAccesses.size(); ++i) {
    result.rates.push_back({kAccesses[i], median(samples[i].one), median(samples[i].all)});
  }
  return result;
}

}  // namespace athanor::advisor
