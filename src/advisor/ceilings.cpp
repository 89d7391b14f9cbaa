#include "advisor/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/memory.h"
#include "ops/memory_rate.h"

namespace athanor::advisor {
namespace {

constexpr double kProductSeconds = 0.1;  // half of it on operands in registers
constexpr int kMemoryPasses = 5;

/// The word in a file of the system; empty where there is none.
std::string word_in(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

/// Bytes of all last-level caches together; 0 where the system does not tell.
uint64_t last_level_caches() {
  std::set<std::string> seen;  // which cores share a cache names it
  uint64_t bytes = 0;
  for (unsigned core = 0; core < std::thread::hardware_concurrency(); ++core) {
    const std::string caches = fmt::format("/sys/devices/system/cpu/cpu{}/cache/index", core);
    int last = 0;
    while (!word_in(fmt::format("{}{}/level", caches, last + 1)).empty()) ++last;
    const std::string folder = fmt::format("{}{}/", caches, last);
    const std::string size = word_in(folder + "size");  // "32768K"
    if (size.empty() || !seen.insert(word_in(folder + "shared_cpu_list")).second) continue;
    bytes += std::strtoull(size.c_str(), nullptr, 10) << 10;
  }
  return bytes;
}

}  // namespace

double median(std::vector<double> values) {
  require(!values.empty(), "a median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Ceilings between(const Ceilings& before, const Ceilings& after) {
  return {(before.bf16_flops + after.bf16_flops) / 2, (before.f32_flops + after.f32_flops) / 2,
          (before.read_bytes + after.read_bytes) / 2};
}

Ceilings median(std::span<const Ceilings> measured) {
  const auto of = [&](double Ceilings::* rate) {
    std::vector<double> values;
    for (const Ceilings& ceilings : measured) values.push_back(ceilings.*rate);
    return median(std::move(values));
  };
  return {of(&Ceilings::bf16_flops), of(&Ceilings::f32_flops), of(&Ceilings::read_bytes)};
}

size_t beyond_caches() {
  constexpr size_t kLeast = size_t{32} << 20;
  constexpr size_t kEnough = size_t{256} << 20;
  const uint64_t wanted = std::max<uint64_t>(kEnough, 4 * last_level_caches());
  const uint64_t quarter = available_memory() / 4;
  if (quarter < kLeast) {
    throw resource_error(
        fmt::format("measuring memory takes {} at least, a quarter of what is free; "
                    "{} are free",
                    size_text(kLeast), size_text(4 * quarter)));
  }
  return std::min(wanted, quarter) >> 20 << 20;
}

CeilingMeter::CeilingMeter(const Threads& threads) : ctx_(threads, scratch_) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    ops::measure_matrix_ceiling(ctx_, dtype, kProductSeconds);
  }
  scratch_.reserve(scratch_.peak());
  const size_t bytes = beyond_caches();
  arena_.reserve(bytes);
  buffer_ = arena_.tensor(DType::kF32, {static_cast<int64_t>(bytes / sizeof(float))});
  ops::measure_memory_pass(ctx_, ops::MemoryAccess::kWrite,
                           buffer_);  // gives every page its memory
}

Ceilings CeilingMeter::measure() {
  Ceilings ceilings;
  ceilings.bf16_flops =
      ops::measure_matrix_ceiling(ctx_, DType::kBF16, kProductSeconds).cache_flops;
  ceilings.f32_flops = ops::measure_matrix_ceiling(ctx_, DType::kF32, kProductSeconds).cache_flops;
  std::vector<double> reads;
  for (int pass = 0; pass < kMemoryPasses; ++pass) {
    reads.push_back(ops::measure_memory_pass(ctx_, ops::MemoryAccess::kRead, buffer_));
  }
  ceilings.read_bytes = median(std::move(reads));
  return ceilings;
}

}  // namespace athanor::advisor
