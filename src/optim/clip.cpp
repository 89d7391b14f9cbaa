#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"

namespace athanor::optim {

int64_t norm_blocks(int64_t numel) { return (numel + ops::kNormBlock - 1) / ops::kNormBlock; }

double global_norm(ops::Context& ctx, const Tensor& gradient, std::span<double> blocks) {
  ops::block_squares(ctx, gradient, blocks);
  return ctx.planning() ? 0.0 : std::sqrt(ops::tree_sum(blocks));
}

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace athanor::optim
