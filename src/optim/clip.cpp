#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"

namespace athanor::optim {

int64_t norm_blocks(int64_t numel) { return (numel + ops::kNormBlock - 1) / ops::kNormBlock; }

double global_norm(ops::Context& ctx, comm::Communicator& communicator, const Partition& partition,
                   const Tensor& gradient, const Tensor& blocks) {
  int tag = 0;
  for (const Piece& piece : partition.pieces()) {
    const Tensor sums =
        blocks.part(piece.begin / ops::kNormBlock, norm_blocks(piece.end - piece.begin));
    if (piece.owner == communicator.rank()) {
      ops::block_squares(ctx, gradient.part(piece.begin, piece.end - piece.begin),
                         {sums.as<double>(), static_cast<size_t>(sums.numel())});
    }
    if (communicator.size() == 1) continue;
    const auto most = static_cast<int64_t>(communicator.largest_part() / sizeof(double));
    for (int64_t at = 0; at < sums.numel(); at += most) {
      communicator.start_share(sums.part(at, std::min(most, sums.numel() - at)), piece.owner,
                               tag++);
    }
  }
  communicator.finish();
  if (ctx.planning()) return 0;
  return std::sqrt(ops::tree_sum({blocks.as<double>(), static_cast<size_t>(blocks.numel())}));
}

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace athanor::optim
