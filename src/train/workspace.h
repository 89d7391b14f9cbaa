// Everything of a run that lives in arenas: laid out once, before step one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "model/model.h"
#include "model/parameters.h"
#include "optim/controller.h"
#include "optim/optimizer.h"
#include "train/config.h"
#include "train/global_batch.h"

namespace athanor::train {

/// The arenas of a run. Fresh ones plan; reserved ones hold.
struct Arenas {
  Arena parameters{"parameters"};
  Arena packed{"packed weights"};
  Arena gradients{"gradients"};
  Arena optimizer{"optimizer state"};
  Arena batch{"batch"};
  Arena activations{"activations"};
  Arena scratch{"scratch"};

  std::array<Arena*, 7> all() {
    return {&parameters, &packed, &gradients, &optimizer, &batch, &activations, &scratch};
  }
};

/// Which rank of how many.
struct Place {
  int rank = 0;
  int ranks = 1;
};

/// What of a step's sequences one rank works on.
struct BatchShare {
  int64_t first = 0;
  int64_t count = 0;
  int64_t groups = 1;  ///< equal parts of them whose sums are added as a tree
};
/// Where the ranks can share the reduction groups, each has its equal part of them, so that sums are the same for any such
/// number of ranks. Else each has one group of as many sequences as the others, give or take one. Throws kUsage when there are fewer
/// sequences than ranks.
BatchShare batch_share(const Config& config, int64_t sequences, Place place);

/// A model in training: master weights, packed copies, gradient accumulators, this rank's part of the optimizer state and of
/// the batch. The same construction plans (fresh arenas) and builds (reserved ones).
class Workspace {
 public:
  /// `config` must be resolved (vocab too). `balanced_routing` is for measurements: model::ModelOptions says what it does.
  Workspace(const Config& config, Place place, Arenas& arenas, bool balanced_routing = false);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Arenas& arenas;
  model::ModelConfig geometry;
  model::Parameters parameters;
  optim::Partition partition;
  optim::Optimizer optimizer;
  optim::BalancingController controller;
  model::Model model;
  GlobalBatch batch;
  /// What this rank's optimizer moves. Alone it is where the layers read; of many, the owned matrices lie apart, and those that
  /// the layers pack appear in the first accumulator, where the gradients were.
  model::FlatSpace masters;
  std::vector<Tensor> accumulators;  ///< real [numel] each: 1 + log2(groups of this rank)
  Tensor norm_blocks;                ///< f64: sums of squares of the flat gradient's blocks
};

}  // namespace athanor::train
