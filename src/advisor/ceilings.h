// What this machine can do at most, measured beside the work that is judged by it.
#pragma once

#include <span>
#include <vector>

#include "base/arena.h"
#include "ops/context.h"
#include "ops/matrix.h"

namespace athanor::advisor {

/// Rates of all threads together.
struct Ceilings {
  double bf16_flops = 0;  ///< FLOP/s of products whose operands stream from L1 and L2
  double f32_flops = 0;
  double read_bytes = 0;  ///< bytes/s read from memory

  /// Of one dtype's products.
  double flops(DType dtype) const { return dtype == DType::kBF16 ? bf16_flops : f32_flops; }
};

/// The middle of both, for what ran between two measurements.
Ceilings between(const Ceilings& before, const Ceilings& after);
/// The median of each rate.
Ceilings median(std::span<const Ceilings> measured);

/// Measures ceilings again and again with memory of its own.
class CeilingMeter {
 public:
  /// Takes a buffer well beyond the last cache, though at most a quarter of the free memory. Throws
  /// kResources when not even that is much.
  explicit CeilingMeter(const Threads& threads);
  /// About a third of a second.
  Ceilings measure();

 private:
  Arena arena_{"ceilings"};
  Arena scratch_{"ceilings' scratch"};
  ops::Context ctx_;
  Tensor buffer_;
};

/// The middle value (of two, the larger) of at least one.
double median(std::vector<double> values);

/// Bytes that the caches of this machine cannot hold: four times all of its last-level caches, at
/// least 256 MiB, though at most a quarter of the free memory. Throws kResources below 32 MiB.
size_t beyond_caches();

}  // namespace athanor::advisor
