// What this CPU and this kernel of the operating system allow.
#pragma once

#include <string>
#include <vector>

#include "ops/context.h"

namespace athanor::ops::cpu {

/// Whom to ask about a machine; tests give the answers of machines that they do not have.
struct Machine {
  bool (*cpu_has)(Isa isa);      ///< the CPU says that it has the instructions
  bool (*grants_tiles)();        ///< the operating system lets this process use the tile registers
  bool (*computes)(Isa isa);     ///< the family's bf16 kernel shows that it computes
  bool (*has_vectors)(Isa isa);  ///< Highway runs its version for the family
};

/// A family that the CPU has and that may not run in full.
struct Refused {
  Isa isa;
  std::string reason;
};

struct Families {
  std::vector<Isa> usable;  ///< slowest first
  std::vector<Refused> refused;
  /// Usable for matrix products, while all other ops run the vectors of a slower family.
  std::vector<Refused> slower;

  bool has(Isa isa) const;
};

/// Asks about each family, slowest first, and about none that builds on a refused one.
Families find_families(const Machine& machine);
/// Those of this machine, found once a process.
const Families& families();

/// True when code of `isa` may run here.
inline bool has(Isa isa) { return families().has(isa); }

struct Choice {
  Isa isa = Isa::kReference;
  /// Why it is not what the CPU could do: one entry a reason.
  std::vector<std::string> reasons;
};
/// The fastest family, or the one that `wanted` (the value of ATHANOR_ISA, or null) names; throws
/// kUsage for one that is unknown or that is not to be had.
Choice choose_family(const Families& families, const char* wanted);

}  // namespace athanor::ops::cpu
