#include "ops/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "ops/cpu/matrix_check.h"
#include "ops/cpu/matrix_families.h"
#endif

namespace athanor::ops::cpu {
namespace {

#if defined(__x86_64__)

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

bool has_amx() {
  if (!has_avx512_bf16()) return false;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  // Linux gives tile data to a process on request only; threads started later inherit the
  // permission.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  if (computes_exactly(kMatrixAmxBf16)) return true;
  log::warning("the tile unit (AMX) of this CPU gives wrong products: using avx512bf16");
  return false;
}

#else

bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_bf16() { return false; }
bool has_amx() { return false; }

#endif

}  // namespace

bool has(Isa isa) {
  switch (isa) {
    case Isa::kReference:
    case Isa::kPortable:
      return true;
    case Isa::kAvx2: {
      static const bool yes = has_avx2();
      return yes;
    }
    case Isa::kAvx512: {
      static const bool yes = has_avx512();
      return yes;
    }
    case Isa::kAvx512Bf16: {
      static const bool yes = has_avx512_bf16();
      return yes;
    }
    case Isa::kAmx: {
      static const bool yes = has_amx();
      return yes;
    }
  }
  return false;
}

}  // namespace athanor::ops::cpu
