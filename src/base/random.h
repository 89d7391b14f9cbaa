// Counter-based random numbers: every number is a pure function of (seed, stream, counter), so that initialisation,
// data order and sampling do not depend on threads, ranks or history.
#pragma once

#include <array>
#include <cstdint>

namespace athanor {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<uint32_t, 4> philox(uint64_t key, uint64_t stream, uint64_t counter);

/// A walk along one (seed, stream). Copy it to save its place.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream, uint64_t counter = 0)
      : seed_(seed), stream_(stream), counter_(counter) {}

  uint64_t next();   ///< 64 uniform bits
  double uniform();  ///< [0, 1), 53 bits
  double normal();   ///< standard normal (Box–Muller on two uniforms; own log, sqrt and cos)
  uint64_t below(uint64_t n);  ///< uniform in [0, n), unbiased; n > 0
  uint64_t counter() const { return counter_; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_;
};

/// A 64-bit stream id from a name: parameters and phases get their own streams by name, not by order.
uint64_t stream_of(const char* name, uint64_t index = 0);

/// Element i of a pseudo-random permutation of [0, n): a Feistel network with cycle walking, O(1) memory.
uint64_t permuted(uint64_t i, uint64_t n, uint64_t seed, uint64_t stream);

}  // namespace athanor
