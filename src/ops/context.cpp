#include "ops/context.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "ops/cpu/cpu_features.h"
#include "ops/fallback.h"

namespace athanor::ops {

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return "reference";
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return "fp64";
    case Precision::kFp32:
      return "fp32";
    case Precision::kBf16:
      return "bf16";
  }
  return "?";
}

Isa detected_isa() {
  static const Isa isa = [] {
    const cpu::Choice choice = cpu::choose_family(cpu::families(), std::getenv("ATHANOR_ISA"));
    for (const std::string& reason : choice.reasons) {
      fall_back("all ops", name_of(choice.isa), reason);
    }
    if (log::verbose("kernels")) {
      std::fprintf(stderr, "kernel: all ops %s (%s)\n", std::string(name_of(choice.isa)).c_str(),
                   choice.reasons.empty() ? "the fastest family of this CPU"
                                          : choice.reasons.front().c_str());
    }
    return choice.isa;
  }();
  return isa;
}

void report_kernel(std::string_view op, std::string_view shape, std::string_view kernel,
                   std::string_view reason) {
  static const bool enabled = log::verbose("kernels");
  if (!enabled) return;
  std::string line(op);
  for (const std::string_view part : {shape, kernel}) line.append(" ").append(part);
  if (!reason.empty()) line.append(" (").append(reason).append(")");
  static std::mutex mutex;
  static std::set<std::string> seen;
  const std::lock_guard lock(mutex);
  if (seen.insert(line).second) std::fprintf(stderr, "kernel: %s\n", line.c_str());
}

}  // namespace athanor::ops
