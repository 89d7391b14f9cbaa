#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/trace.h"
#include "optim/clip.h"

namespace athanor::train {
namespace {

/// Tells of the backward as it goes, and passes the announcements of a group's last micro-batch on.
class Watch final : public model::GradientSink {
 public:
  Watch(comm::Pulse& pulse, int64_t step, model::GradientSink* next)
      : pulse_(pulse), step_(step), next_(next) {}
  void ready(const model::Parameter& parameter) override {
    if (begun_) {
      pulse_.beat();
    } else {
      pulse_.enter(comm::Phase::kBackward, step_);
    }
    begun_ = true;
    if (next_ != nullptr) next_->ready(parameter);
  }

 private:
  comm::Pulse& pulse_;
  int64_t step_;
  model::GradientSink* next_;
  bool begun_ = false;
};

}  // namespace

StepRunner::StepRunner(const Config& config, Workspace& workspace, Place place,
                       comm::Communicator& communicator)
    : config_(config),
      workspace_(workspace),
      place_(place),
      communicator_(communicator),
      exchange_(workspace.partition, workspace.parameters, communicator) {
  group_losses_.reserve(static_cast<size_t>(config.batch.reduction_groups));
  statistics_.expert_counts.assign(
      static_cast<size_t>(workspace.geometry.layers * workspace.geometry.classes()), 0);
}

double StepRunner::run_group(ops::Context& ctx, int64_t first, int64_t sequences, double scale,
                             const Tensor& into, model::GradientSink* sink) {
  {
    const ops::PartScope part(ctx, "gradients");
    ops::fill(ctx, into, 0.0);
  }
  workspace_.parameters.set_gradients(into);
  statistics_.loss_sum = 0;
  for (int64_t done = 0; done < sequences; done += config_.batch.micro_batch) {
    const int64_t count = std::min(config_.batch.micro_batch, sequences - done);
    communicator_.pulse().enter(comm::Phase::kForward, step_);
    Watch watch(communicator_.pulse(), step_, done + count == sequences ? sink : nullptr);
    workspace_.model.forward_backward(ctx, workspace_.arenas.activations,
                                      workspace_.batch.micro_batch(first + done, count), scale,
                                      watch, statistics_);
  }
  return statistics_.loss_sum;
}

void StepRunner::sum_gradients(ops::Context& ctx, const BatchShare& share, double scale) {
  const int64_t sequences = share.count / share.groups;
  std::vector<Tensor>& accumulators = workspace_.accumulators;
  exchange_.begin_gradients(workspace_.parameters.space_of(accumulators.front()));
  shown_ = place_.ranks == 1;
  group_losses_.clear();
  // As a binary counter carries: `held` accumulators hold sums of 2^k groups each, k falling from
  // left to right.
  size_t held = 0;
  for (int64_t group = 0; group < share.groups; ++group) {
    group_losses_.push_back(run_group(ctx, group * sequences, sequences, scale,
                                      accumulators[held++],
                                      share.groups == 1 ? &exchange_ : nullptr));
    for (int64_t carry = group; (carry & 1) != 0; carry >>= 1) {
      --held;
      const ops::PartScope part(ctx, "gradients");
      ops::add(ctx, accumulators[held], accumulators[held - 1]);
    }
  }
  communicator_.pulse().enter(comm::Phase::kReduce, step_);
  if (share.groups > 1) exchange_.all_ready();
  exchange_.finish();
}

StepResult StepRunner::run_gradients(ops::Context& ctx, const StepPlan& plan) {
  step_ = plan.step + 1;
  workspace_.model.set_theta(plan.theta);
  workspace_.model.refresh(ctx);
  std::fill(statistics_.expert_counts.begin(), statistics_.expert_counts.end(), 0);

  StepResult result;
  result.targets = workspace_.batch.targets();
  communicator_.all_reduce_sum(Tensor::of(&result.targets, {1}));
  const double scale = result.targets > 0 ? 1.0 / static_cast<double>(result.targets) : 0.0;

  sum_gradients(ctx, batch_share(config_, plan.sequences, place_), scale);
  communicator_.all_reduce_sum(Tensor::of(
      statistics_.expert_counts.data(), {static_cast<int64_t>(statistics_.expert_counts.size())}));
  double loss = ops::tree_sum(group_losses_);
  communicator_.all_reduce_sum(Tensor::of(&loss, {1}));
  result.loss = loss * scale;
  return result;
}

StepResult StepRunner::run(ops::Context& ctx, const StepPlan& plan, int64_t applied) {
  StepResult result = run_gradients(ctx, plan);
  update(ctx, plan, applied, result);
  return result;
}

void StepRunner::update(ops::Context& ctx, const StepPlan& plan, int64_t applied,
                        StepResult& result) {
  const Tensor& gradient = workspace_.accumulators.front();
  const ops::PartScope part(ctx, "optimizer");
  result.gradient_norm = optim::global_norm(ctx, communicator_, workspace_.partition, gradient,
                                            workspace_.norm_blocks);
  result.applied = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  if (!result.applied) return;

  communicator_.pulse().enter(comm::Phase::kOptimizer, step_);
  optim::StepOptions options;
  options.muon_learning_rate = plan.learning_rate;
  options.adamw_learning_rate = plan.adamw_learning_rate;
  options.gradient_scale = optim::clip_scale(result.gradient_norm, config_.optimizer.clip);
  options.step = applied + 1;
  exchange_.begin_values(workspace_.parameters.space());
  workspace_.optimizer.step(ctx, communicator_, workspace_.masters, gradient, options,
                            [&](int64_t begin, int64_t end) {
                              communicator_.pulse().beat();
                              publish(ctx, begin, end);
                            });
  communicator_.pulse().enter(comm::Phase::kGather, step_);
  exchange_.finish();
  workspace_.parameters.touch();
  shown_ = true;
  workspace_.controller.step(ctx, workspace_.parameters.balancing_biases(),
                             statistics_.expert_counts, config_.optimizer.balancing_learning_rate,
                             applied + 1);
}

void StepRunner::publish(ops::Context& ctx, int64_t begin, int64_t end) {
  const int64_t matrices = workspace_.parameters.matrices_begin();
  if (place_.ranks > 1 && begin >= matrices) {
    // Their gradients have been read.
    ops::convert(ctx, workspace_.masters.part(begin, end - begin),
                 workspace_.parameters.space().part(begin, end - begin));
  }
  exchange_.moved(begin, end);
}

void StepRunner::adopt_values(ops::Context& ctx) {
  const model::FlatSpace& masters = workspace_.masters;
  if (place_.ranks > 1) {
    ops::convert(
        ctx, workspace_.parameters.space().part(masters.matrices_begin, masters.matrices.numel()),
        masters.matrices);
  }
  shown_ = true;
}

void StepRunner::show_values(ops::Context& ctx) {
  if (shown_) return;
  exchange_.begin_values(workspace_.parameters.space());
  const int64_t matrices = workspace_.parameters.matrices_begin();
  for (const optim::Piece& piece : workspace_.partition.pieces()) {
    if (piece.owner != place_.rank) continue;
    const int64_t middle = std::clamp(matrices, piece.begin, piece.end);
    if (piece.begin < middle) publish(ctx, piece.begin, middle);
    if (middle < piece.end) publish(ctx, middle, piece.end);
  }
  exchange_.finish();
  shown_ = true;
}

void StepRunner::plan(ops::Context& ctx) {
  model::GradientSink sink;
  Workspace& w = workspace_;
  w.model.refresh(ctx);
  for (const Phase& phase : config_.phases) {
    // What an op takes may go by the longest segment or by their number.
    for (const bool one_segment_a_token : {false, true}) {
      w.model.forward_backward(
          ctx, w.arenas.activations,
          w.batch.planned_batch(config_.batch.micro_batch, phase.sequence, one_segment_a_token),
          1.0, sink, statistics_);
    }
  }
  ops::add(ctx, w.accumulators.back(), w.accumulators.front());
  optim::global_norm(ctx, communicator_, w.partition, w.accumulators.front(), w.norm_blocks);
  w.optimizer.step(ctx, communicator_, w.masters, w.accumulators.front(), {},
                   [](int64_t, int64_t) {});
  w.controller.step(ctx, w.parameters.balancing_biases(), statistics_.expert_counts, 0, 1);
}

}  // namespace athanor::train
