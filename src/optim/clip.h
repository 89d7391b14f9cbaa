// Clipping by the global norm of all gradients.
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"

namespace athanor::optim {

/// How many doubles global_norm needs for `numel` elements.
int64_t norm_blocks(int64_t numel);

/// √Σ g² over the flat gradient (real), summed over fixed blocks in tree order; `blocks` is
/// norm_blocks(numel) of scratch. Not finite when any element is not.
double global_norm(ops::Context& ctx, const Tensor& gradient, std::span<double> blocks);

/// min(1, clip/(norm + 1e-6)) (golden/README "Train"); 1 when clip is 0, which turns clipping off.
double clip_scale(double norm, double clip);

}  // namespace athanor::optim
