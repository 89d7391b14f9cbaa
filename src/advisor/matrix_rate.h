// How fast this machine multiplies matrices, against its own ceiling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/context.h"

namespace athanor::advisor {

/// Rates of one dtype in FLOP/s (a multiply-add is two), medians over interleaved rounds.
struct MatrixRate {
  DType dtype = DType::kF32;
  double register_flops = 0;  ///< operands stay in registers
  double cache_flops = 0;     ///< operands stream from L1 and L2
  double product_flops = 0;   ///< one whole product size × size × size, weights packed beforehand
  double peer_flops = 0;      ///< the same product by the peer; 0 without one
  double over_peer = 0;       ///< the median of the rounds' ratios of our rate to the peer's
  /// The product's share of the ceiling that it could reach: operands in registers.
  double share() const { return product_flops / register_flops; }
};

struct MatrixRates {
  std::vector<MatrixRate> rates;  ///< bf16, then f32
  int64_t size = 0;               ///< of the product
  int rounds = 0;
  int threads = 0;
  ops::Isa isa = ops::Isa::kReference;
  std::string peer;  ///< "oneDNN 2.6.3"; empty without one
};

/// Measures bf16 and f32 for about `seconds`, at least one round: in every round each ceiling and
/// each product once, one after the other, because a machine's speed drifts; with `peers` also the
/// product of each peer that was built (advisor/peers.h). Throws kUsage for sizes or times below one
/// step, and where no peer was built; kPeer when a peer fails.
MatrixRates measure_matrix_rates(int64_t size, double seconds, bool peers = false);

}  // namespace athanor::advisor
