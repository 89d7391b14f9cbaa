#include "ops/fallback.h"

#include <algorithm>
#include <mutex>

#include "base/log.h"

namespace athanor::ops {
namespace {

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}
std::vector<Fallback>& known() {
  static std::vector<Fallback> instance;
  return instance;
}

}  // namespace

void fall_back(std::string_view op, std::string_view kernel, std::string_view reason) {
  const std::lock_guard lock(mutex());
  const bool seen = std::any_of(known().begin(), known().end(), [&](const Fallback& f) {
    return f.op == op && f.kernel == kernel && f.reason == reason;
  });
  if (seen) return;
  known().push_back({std::string(op), std::string(kernel), std::string(reason)});
  log::warning(std::string(op) + " run" + (op == "all ops" ? "" : "s") + " the " +
               std::string(kernel) + " kernels: " + std::string(reason));
}

std::vector<Fallback> fallbacks() {
  const std::lock_guard lock(mutex());
  return known();
}

size_t fallback_count() {
  const std::lock_guard lock(mutex());
  return known().size();
}

}  // namespace athanor::ops
