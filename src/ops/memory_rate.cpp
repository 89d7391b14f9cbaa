#include "ops/memory_rate.h"

#include <chrono>

#include "base/error.h"
#include "ops/cpu/memory_pass.h"

namespace athanor::ops {

std::string_view name_of(MemoryAccess access) {
  switch (access) {
    case MemoryAccess::kRead:
      return "read";
    case MemoryAccess::kWrite:
      return "write";
    case MemoryAccess::kStream:
      return "write_nontemporal";
    case MemoryAccess::kCopy:
      return "copy";
    case MemoryAccess::kStreamCopy:
      return "copy_nontemporal";
  }
  return "?";
}

double measure_memory_pass(const Context& ctx, MemoryAccess access, const Tensor& buffer) {
  require(buffer.contiguous() && buffer.bytes() >= (size_t{1} << 20),
          "measure_memory_pass: needs a contiguous buffer of 1 MiB or more");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const int64_t bytes = cpu::memory_pass(ctx, access, buffer);
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace athanor::ops
