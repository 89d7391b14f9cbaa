#include "base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "base/counted.h"
#include "base/error.h"

namespace athanor {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

/// The number behind `key` in a file of lines "key number …".
std::optional<uint64_t> number_in(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string word;
  uint64_t value = 0;
  while (in >> word) {
    if (word == key && in >> value) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> number_of(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;  // "max" is no number: no limit
  return std::nullopt;
}

uint64_t left_by_cgroup() {
  const auto limit = number_of("/sys/fs/cgroup/memory.max");
  const auto used = number_of("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return kUnknown;
  // Cached file pages are dropped when room is needed.
  const uint64_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
  const uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

uint64_t available_memory() {
  const auto kibibytes = number_in("/proc/meminfo", "MemAvailable:");
  return std::min(kibibytes ? *kibibytes << 10 : kUnknown, left_by_cgroup());
}

void require_memory(const std::string& what, uint64_t bytes) {
  const uint64_t available = available_memory();
  if (bytes <= available) return;
  throw resource_error(fmt::format("{} needs {} of memory, {} are free", what, size_text(bytes),
                                   size_text(available)));
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return counted(bytes, "byte");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

}  // namespace athanor
