#include "model/packed_weight.h"

namespace athanor::model {

PackedWeight allocate_packed(Arena& arena, DType dtype, int64_t n, int64_t k, bool training) {
  PackedWeight packed;
  packed.forward = ops::PackedMatrix::allocate(arena, dtype, n, k);
  if (training) packed.transposed = ops::PackedMatrix::allocate(arena, dtype, k, n);
  return packed;
}

void pack(ops::Context& ctx, const Tensor& w, PackedWeight& packed) {
  ops::pack(ctx, w, packed.forward);
  if (!packed.transposed.empty()) ops::pack_transposed(ctx, w, packed.transposed);
}

PackedStack allocate_packed_stack(Arena& arena, DType dtype, int64_t groups, int64_t n, int64_t k,
                                  bool training) {
  PackedStack packed;
  for (int64_t g = 0; g < groups; ++g) {
    packed.forward.push_back(ops::PackedMatrix::allocate(arena, dtype, n, k));
    if (training) packed.transposed.push_back(ops::PackedMatrix::allocate(arena, dtype, k, n));
  }
  return packed;
}

void pack(ops::Context& ctx, const Tensor& w, PackedStack& packed) {
  for (size_t g = 0; g < packed.forward.size(); ++g) {
    const Tensor matrix = w.at(static_cast<int64_t>(g));
    ops::pack(ctx, matrix, packed.forward[g]);
    if (!packed.transposed.empty()) ops::pack_transposed(ctx, matrix, packed.transposed[g]);
  }
}

}  // namespace athanor::model
