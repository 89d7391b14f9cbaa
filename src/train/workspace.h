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

/// A model in training: master weights, packed copies, gradient accumulators, optimizer state and
/// the batch. The same construction plans (fresh arenas) and builds (reserved ones).
class Workspace {
 public:
  /// `config` must be resolved (vocab too); `ranks` share the reduction groups. `balanced_routing` is
  /// for measurements: model::ModelOptions says what it does.
  Workspace(const Config& config, int ranks, Arenas& arenas, bool balanced_routing = false);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Arenas& arenas;
  model::ModelConfig geometry;
  model::Parameters parameters;
  optim::Optimizer optimizer;
  optim::BalancingController controller;
  model::Model model;
  GlobalBatch batch;
  std::vector<Tensor> accumulators;  ///< real [numel] each: 1 + log2(groups of this rank)
  Tensor norm_blocks;                ///< f64: sums of squares of the flat gradient's blocks
};

/// Groups that this many ranks leave to each. Throws kUsage when the ranks cannot share them.
int64_t groups_of_a_rank(const Config& config, int ranks);

/// The most sequences a step of the plan has.
int64_t largest_batch(const Config& config);

}  // namespace athanor::train
