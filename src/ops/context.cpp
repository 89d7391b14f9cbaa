#include "ops/context.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "ops/cpu/cpu_features.h"

namespace athanor::ops {
namespace {

constexpr Isa kFamilies[] = {Isa::kReference, Isa::kPortable,   Isa::kAvx2,
                             Isa::kAvx512,    Isa::kAvx512Bf16, Isa::kAmx};

/// The fastest family, or the one that `wanted` (the value of ATHANOR_ISA) names.
Isa choose(const char* wanted) {
  if (wanted == nullptr || *wanted == '\0') {
    Isa best = Isa::kReference;
    for (const Isa isa : kFamilies) {
      if (cpu::has(isa)) best = isa;
    }
    return best;
  }
  std::string known;
  std::string here;
  for (const Isa isa : kFamilies) {
    known += (known.empty() ? "" : ", ") + std::string(name_of(isa));
    if (!cpu::has(isa)) continue;
    here += (here.empty() ? "" : ", ") + std::string(name_of(isa));
    if (name_of(isa) == wanted) return isa;
  }
  for (const Isa isa : kFamilies) {
    if (name_of(isa) == wanted) {
      throw usage_error("ATHANOR_ISA=" + std::string(wanted) +
                        ": this CPU does not have it; choose one of " + here);
    }
  }
  throw usage_error("ATHANOR_ISA=" + std::string(wanted) + ": unknown; choose one of " + known);
}

}  // namespace

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
  static const Isa isa = choose(std::getenv("ATHANOR_ISA"));
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
