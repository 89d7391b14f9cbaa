// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace athanor {

/// Bytes that can be taken without swapping: what the kernel calls available, or less where a
/// cgroup (v2) allows less. The largest number when neither tells.
uint64_t available_memory();

/// Throws kResources with both figures when `bytes` are more than available_memory(): "what
/// needs 3.2 GiB of memory, 1.1 GiB are free".
void require_memory(const std::string& what, uint64_t bytes);

/// "3.2 GiB", "17 KiB", "12 bytes".
std::string size_text(uint64_t bytes);

}  // namespace athanor
