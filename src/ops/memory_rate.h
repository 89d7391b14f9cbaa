// How fast this machine reads and writes memory: the bound of every op that only passes over it.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/context.h"

namespace athanor::ops {

/// What a pass does with each byte of its buffer.
enum class MemoryAccess : uint8_t {
  kRead,
  kWrite,       ///< ordinary stores, before which the hardware reads each line
  kStream,      ///< stores past the caches (non-temporal)
  kCopy,        ///< the first half into the second
  kStreamCopy,  ///< the same with stores past the caches
};

std::string_view name_of(MemoryAccess access);

/// Bytes per second of one pass over `buffer` (contiguous, at least 1 MiB) on all threads of ctx; a
/// copy counts the bytes that it reads and those that it writes. Any bytes may be in the buffer, and
/// any are after. A rate of memory needs a buffer well beyond the last cache whose pages have all
/// been written before.
double measure_memory_pass(const Context& ctx, MemoryAccess access, const Tensor& buffer);

}  // namespace athanor::ops
