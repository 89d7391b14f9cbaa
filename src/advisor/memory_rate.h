// How fast this machine reads, writes and copies memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/memory_rate.h"

namespace athanor::advisor {

/// Medians over interleaved rounds, in bytes per second; a copy counts what it reads and what it
/// writes.
struct MemoryRate {
  ops::MemoryAccess access = ops::MemoryAccess::kRead;
  double one_thread = 0;
  double all_threads = 0;
};

struct MemoryRates {
  std::vector<MemoryRate> rates;  ///< one for each MemoryAccess
  uint64_t bytes = 0;             ///< of the buffer
  int rounds = 0;
  int threads = 0;
  ops::Isa isa = ops::Isa::kReference;
};

/// Measures for about `seconds`, at least one round: in every round each access once on one thread
/// and once on all, one after the other, over a buffer that no cache holds (beyond_caches). Throws
/// kUsage for seconds that are not above 0, kResources when too little memory is free.
MemoryRates measure_memory_rates(double seconds);

}  // namespace athanor::advisor
