#include "train/workspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "optim/clip.h"

namespace athanor::train {
namespace {

model::ModelOptions training_options(const Config& config, bool balanced_routing) {
  model::ModelOptions options;
  options.training = true;
  options.recompute = recompute_flags(config);
  options.rope_positions = longest_sequence(config);
  options.balanced_routing = balanced_routing;
  return options;
}

int64_t largest_share(const Config& config, Place place) {
  int64_t most = 0;
  for (const int64_t sequences : batch_sizes(config)) {
    most = std::max(most, batch_share(config, sequences, place).count);
  }
  return most;
}

}  // namespace

BatchShare batch_share(const Config& config, int64_t sequences, Place place) {
  if (sequences < place.ranks) {
    throw usage_error(fmt::format(
        "batch.sequences: a step of {} sequences cannot be shared by {} ranks; start fewer ranks",
        sequences, place.ranks));
  }
  const int64_t groups = config.batch.reduction_groups;
  if (groups % place.ranks == 0) {
    const int64_t count = sequences / place.ranks;
    return {place.rank * count, count, groups / place.ranks};
  }
  const int64_t first = place.rank * sequences / place.ranks;
  return {first, (place.rank + 1) * sequences / place.ranks - first, 1};
}

Workspace::Workspace(const Config& config, Place place, Arenas& places, bool balanced_routing)
    : arenas(places),
      geometry(model_config(config)),
      parameters(geometry, precision_of(config), arenas.parameters, place.ranks == 1),
      partition(parameters, place.ranks),
      optimizer(parameters, optimizer_config(config), partition, place.rank, arenas.optimizer),
      controller(geometry, precision_of(config), arenas.optimizer),
      model(parameters, arenas.packed, training_options(config, balanced_routing)),
      batch(largest_share(config, place), longest_sequence(config), config.batch.micro_batch,
            arenas.batch) {
  const auto groups =
      static_cast<uint64_t>(batch_share(config, config.batch.sequences, place).groups);
  const DType real = ops::real_dtype(parameters.precision());
  const auto levels = static_cast<int>(std::bit_width(groups));
  for (int i = 0; i < levels; ++i) {
    accumulators.push_back(arenas.gradients.tensor(real, {parameters.numel()}));
  }
  norm_blocks = arenas.gradients.tensor(DType::kF64, {optim::norm_blocks(parameters.numel())});
  parameters.set_gradients(accumulators.front());
  masters = parameters.space();
  if (place.ranks > 1) {
    parameters.set_matrices(accumulators.front());
    masters.matrices_begin = parameters.numel();
    int64_t end = parameters.numel();
    for (const optim::Piece& piece : partition.pieces()) {
      if (piece.owner != place.rank || piece.end <= parameters.matrices_begin()) continue;
      masters.matrices_begin = std::max(piece.begin, parameters.matrices_begin());
      end = piece.end;
    }
    masters.matrices = arenas.parameters.tensor(real, {end - masters.matrices_begin});
  }
}

}  // namespace athanor::train
