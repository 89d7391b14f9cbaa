// One optimizer step: forward and backward over the global batch, reduction, clipping, update.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "ops/context.h"
#include "train/config.h"
#include "train/exchange.h"
#include "train/phases.h"
#include "train/workspace.h"

namespace athanor::train {

struct StepResult {
  double loss = 0;           ///< nats, mean over all targets of the global batch
  double gradient_norm = 0;  ///< before clipping
  int64_t targets = 0;
  bool applied = false;  ///< false: the loss or a gradient was not finite, nothing was changed
};

/// Runs steps in a workspace. Sums have one order for any number of threads and for any
/// power-of-two number of ranks up to batch.reduction_groups (DESIGN §2, Sameness).
class StepRunner {
 public:
  /// `place` is the communicator's, but in planning, which needs no peers.
  StepRunner(const Config& config, Workspace& workspace, Place place,
             comm::Communicator& communicator);

  /// The step `plan` on what workspace.batch has fetched. `applied` is the number of steps applied
  /// before, which the optimizers' bias corrections go by.
  StepResult run(ops::Context& ctx, const StepPlan& plan, int64_t applied);

  /// Its first half: the loss, and the gradient in the first accumulator.
  StepResult run_gradients(ops::Context& ctx, const StepPlan& plan);
  /// Its second half: norm, clipping and update, which leave everything as it is where the loss or the gradient is not finite.
  void update(ops::Context& ctx, const StepPlan& plan, int64_t applied, StepResult& result);

  /// The parameters have been set by name, all of them on every rank: takes the owned ones over.
  void adopt_values(ops::Context& ctx);
  /// Sees to it that the parameters can be read by name, and compared. All ranks.
  void show_values(ops::Context& ctx);

  /// Tokens of the last step by layer and class [L·(E+1)], the skip class last, over the global
  /// batch.
  const std::vector<int64_t>& expert_counts() const { return statistics_.expert_counts; }

  /// Takes what the largest steps of the config take, in planning arenas.
  void plan(ops::Context& ctx);

 private:
  /// Adds one reduction group's gradient into `into`, micro-batch by micro-batch, the last of them announced to `sink`; returns
  /// its summed loss.
  double run_group(ops::Context& ctx, int64_t first, int64_t sequences, double scale,
                   const Tensor& into, model::GradientSink* sink);
  /// Gradients of all groups of this rank, summed as a binary tree, and then over ranks: the owned parts of the sum end in the
  /// first accumulator.
  void sum_gradients(ops::Context& ctx, const BatchShare& share, double scale);

  const Config& config_;
  Workspace& workspace_;
  Place place_;
  comm::Communicator& communicator_;
  Exchange exchange_;
  std::vector<double> group_losses_;
  int64_t step_ = 0;    ///< the one that runs, from 1
  bool shown_ = false;  ///< the parameters can be read by name

  /// Owned elements [begin, end) of the masters are what they shall be: sends them on their way to all.
  void publish(ops::Context& ctx, int64_t begin, int64_t end);
  model::Statistics statistics_;
};

}  // namespace athanor::train
