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

}  // namespace

int64_t groups_of_a_rank(const Config& config, int ranks) {
  const int64_t groups = config.batch.reduction_groups;
  if (groups % ranks != 0) {
    throw usage_error(fmt::format(
        "batch.reduction_groups: {} groups cannot be shared by {} ranks; set it to a multiple",
        groups, ranks));
  }
  return groups / ranks;
}

int64_t largest_batch(const Config& config) {
  const std::vector<int64_t> sizes = batch_sizes(config);
  return *std::max_element(sizes.begin(), sizes.end());
}

Workspace::Workspace(const Config& config, int ranks, Arenas& places, bool balanced_routing)
    : arenas(places),
      geometry(model_config(config)),
      parameters(geometry, precision_of(config), arenas.parameters),
      optimizer(parameters, optimizer_config(config), arenas.optimizer),
      controller(geometry, precision_of(config), arenas.optimizer),
      model(parameters, arenas.packed, training_options(config, balanced_routing)),
      batch(largest_batch(config) / ranks, longest_sequence(config), config.batch.micro_batch,
            arenas.batch) {
  const auto groups = static_cast<uint64_t>(groups_of_a_rank(config, ranks));
  const DType real = ops::real_dtype(parameters.precision());
  const auto levels = static_cast<int>(std::bit_width(groups));
  for (int i = 0; i < levels; ++i) {
    accumulators.push_back(arenas.gradients.tensor(real, {parameters.numel()}));
  }
  norm_blocks = arenas.gradients.tensor(DType::kF64, {optim::norm_blocks(parameters.numel())});
  parameters.set_gradients(accumulators.front());
}

}  // namespace athanor::train
