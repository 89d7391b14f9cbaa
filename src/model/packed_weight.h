// A weight as the products read it.
#pragma once

#include <span>
#include <vector>

#include "ops/matrix.h"

namespace athanor::model {

/// w [n, k] packed for y = x·wᵀ and, where the model trains, for dx = dy·w.
struct PackedWeight {
  ops::PackedMatrix forward;
  ops::PackedMatrix transposed;
};

/// Space for w [n, k]; `transposed` stays empty unless `training`.
PackedWeight allocate_packed(Arena& arena, DType dtype, int64_t n, int64_t k, bool training);
/// Packs the current values w [n, k].
void pack(ops::Context& ctx, const Tensor& w, PackedWeight& packed);

/// The same for a stack w [groups, n, k] of which each matrix is a product of its own.
struct PackedStack {
  std::vector<ops::PackedMatrix> forward;
  std::vector<ops::PackedMatrix> transposed;
};
PackedStack allocate_packed_stack(Arena& arena, DType dtype, int64_t groups, int64_t n, int64_t k,
                                  bool training);
void pack(ops::Context& ctx, const Tensor& w, PackedStack& packed);

}  // namespace athanor::model
