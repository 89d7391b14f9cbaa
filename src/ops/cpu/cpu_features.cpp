#include "ops/cpu/cpu_features.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "ops/cpu/matrix_check.h"
#include "ops/cpu/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace athanor::ops::cpu {
namespace {

constexpr Isa kFamilies[] = {Isa::kReference, Isa::kPortable,   Isa::kAvx2,
                             Isa::kAvx512,    Isa::kAvx512Bf16, Isa::kAmx};

#if defined(__x86_64__)

bool cpu_has_tiles() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
}

bool cpu_has(Isa isa) {
  switch (isa) {
    case Isa::kReference:
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::kAvx512Bf16:
      return __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx:
      return cpu_has_tiles();
  }
  return false;
}

bool grants_tiles() {
  // Linux gives tile data to a process on request only; threads started later inherit the
  // permission.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_vectors(Isa isa) {
  const int64_t needed = isa >= Isa::kAvx512 ? HWY_AVX3 : isa >= Isa::kAvx2 ? HWY_AVX2 : 0;
  return (needed & ~hwy::SupportedTargets()) == 0;
}

#else

bool cpu_has(Isa isa) { return isa <= Isa::kPortable; }
bool grants_tiles() { return false; }
bool has_vectors(Isa) { return true; }

#endif

bool computes(Isa isa) { return computes_exactly(matrix_kernel(isa, DType::kBF16)); }

std::string names_of(std::span<const Isa> list) {
  std::string names;
  for (const Isa isa : list) names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  return names;
}

}  // namespace

bool Families::has(Isa isa) const {
  return std::find(usable.begin(), usable.end(), isa) != usable.end();
}

Families find_families(const Machine& machine) {
  Families found;
  for (const Isa isa : kFamilies) {
    if (!machine.cpu_has(isa)) break;
    if (isa == Isa::kAmx && !machine.grants_tiles()) {
      found.refused.push_back(
          {isa, "the operating system refuses the tile registers (XTILEDATA) to this process"});
      break;
    }
    // Instructions that machines of software are known to get wrong, or not to have after all.
    if (isa >= Isa::kAvx512Bf16 && !machine.computes(isa)) {
      found.refused.push_back({isa, "its products are wrong on this machine"});
      break;
    }
    if (!machine.has_vectors(isa)) {
      found.slower.push_back({isa, "this CPU lacks instructions that Highway asks for"});
    }
    found.usable.push_back(isa);
  }
  return found;
}

const Families& families() {
  static const Families found = find_families({cpu_has, grants_tiles, computes, has_vectors});
  return found;
}

Choice choose_family(const Families& families, const char* wanted) {
  Choice choice{families.usable.back(), {}};
  if (wanted != nullptr && *wanted != '\0') {
    const auto* named = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](Isa isa) { return name_of(isa) == wanted; });
    const std::string asked = "ATHANOR_ISA=" + std::string(wanted);
    if (named == std::end(kFamilies)) {
      throw usage_error(asked + ": unknown; choose one of " + names_of(kFamilies));
    }
    for (const Refused& refused : families.refused) {
      if (refused.isa != *named) continue;
      throw usage_error(asked + ": " + refused.reason + "; choose one of " +
                        names_of(families.usable));
    }
    if (!families.has(*named)) {
      throw usage_error(asked + ": this CPU does not have it; choose one of " +
                        names_of(families.usable));
    }
    if (*named != choice.isa) {
      choice.reasons.push_back(asked + ", and this machine has " +
                               std::string(name_of(choice.isa)));
    }
    choice.isa = *named;
  } else {
    for (const Refused& refused : families.refused) {
      choice.reasons.push_back("not " + std::string(name_of(refused.isa)) + ": " + refused.reason);
    }
  }
  for (const Refused& slower : families.slower) {
    if (slower.isa == choice.isa) {
      choice.reasons.push_back("all but matrix products has slower vectors: " + slower.reason);
    }
  }
  return choice;
}

}  // namespace athanor::ops::cpu
