// The matrix products of whole configs, each beside a peer's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/context.h"

namespace athanor::advisor {

enum class ProductKind : uint8_t {
  kForward,         ///< y [t, n] = x [t, k] · wᵀ, w packed
  kInputGradient,   ///< dx [t, k] = dy [t, n] · w, w packed
  kWeightGradient,  ///< dw [n, k] += dyᵀ · x, both as they lie
};
std::string_view name_of(ProductKind kind);

/// A product of a layer: t tokens, w [n, k].
struct ProductShape {
  std::string config;  ///< the first that has it
  std::string layer;   ///< "attention in", "experts down", …
  ProductKind kind = ProductKind::kForward;
  int64_t t = 0, n = 0, k = 0;
};

/// The products of a training step of these configs (TOML files), each shape once: a micro-batch's
/// projections, one expert's products when all have as many tokens, and the vocabulary by as many
/// rows as the loss takes at once. The router's, which are small, and the convolutions are left out.
std::vector<ProductShape> product_shapes(const std::vector<std::string>& configs);

struct ProductRate {
  ProductShape shape;
  double flops = 0;       ///< FLOP/s, the median over rounds
  double share = 0;       ///< of the ceiling with operands in registers, the rounds' median
  double peer_flops = 0;  ///< 0 without a peer
  double over_peer = 0;   ///< the median of the rounds' ratios
};

struct ProductRates {
  std::vector<ProductRate> products;
  int rounds = 0;
  int threads = 0;
  ops::Isa isa = ops::Isa::kReference;
  std::string peer;           ///< "oneDNN 2.6.3"; empty without one
  double geometric_mean = 0;  ///< of over_peer; 0 without a peer
  double least = 0;           ///< of over_peer
};

/// Measures the products in bf16 for about `seconds`, at least one round, as measure_matrix_rates
/// does: each is run a few times in a row, by us and then by the peer, and the fastest run counts.
/// Throws what that throws, and what a config throws that is wrong.
ProductRates measure_product_rates(const std::vector<std::string>& configs, double seconds,
                                   bool peers);

}  // namespace athanor::advisor
