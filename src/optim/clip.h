// Clipping by the global norm of all gradients.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "ops/context.h"
#include "optim/partition.h"

namespace athanor::optim {

/// How many doubles global_norm needs for `numel` elements.
int64_t norm_blocks(int64_t numel);

/// √Σ g² over the flat gradient (real) of which each rank has its own pieces, summed over fixed blocks in tree order: the same
/// bits for any number of ranks. `blocks` is f64 [norm_blocks(numel)] of scratch. Not finite when any element is not.
double global_norm(ops::Context& ctx, comm::Communicator& communicator, const Partition& partition,
                   const Tensor& gradient, const Tensor& blocks);

/// min(1, clip/(norm + 1e-6)) (golden/README "Train"); 1 when clip is 0, which turns clipping off.
double clip_scale(double norm, double clip);

}  // namespace athanor::optim
