#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/matrix.h"
#include "ops/update.h"

namespace athanor::optim {
namespace {

/// Elements [offset, offset + count) of a flat tensor.
Tensor part(const Tensor& flat, int64_t offset, int64_t count) {
  return {
      flat.data() + offset * static_cast<int64_t>(size_of(flat.dtype())), flat.dtype(), {count}};
}

Tensor shaped(const Tensor& flat, const std::vector<int64_t>& shape) {
  switch (shape.size()) {
    case 1:
      return flat.reshaped({shape[0]});
    case 2:
      return flat.reshaped({shape[0], shape[1]});
    case 3:
      return flat.reshaped({shape[0], shape[1], shape[2]});
    default:
      throw bug("a parameter has one to three dimensions");
  }
}

}  // namespace

Optimizer::Optimizer(const model::Parameters& parameters, OptimizerConfig config, Arena& arena)
    : config_(config) {
  int64_t muon = 0;
  int64_t adamw = 0;
  for (const model::Parameter& parameter : parameters.all()) {
    const Rule rule = rule_of(config_.kind, parameter.spec.kind);
    const std::vector<int64_t>& shape = parameter.spec.shape;
    const int64_t count = parameter.spec.numel();
    Run run{rule, parameter.offset, count, rule == Rule::kMuon ? muon : adamw, 0, 0, 0};
    if (rule == Rule::kMuon) {
      run.cols = shape.back();
      run.rows = shape[shape.size() - 2];
      run.matrices = count / (run.rows * run.cols);
      muon += count;
    } else {
      adamw += count;
      Run* last = runs_.empty() ? nullptr : &runs_.back();
      if (last != nullptr && last->rule == rule && last->offset + last->count == run.offset) {
        last->count += count;
        continue;
      }
    }
    runs_.push_back(run);
  }
  const DType real = ops::real_dtype(parameters.precision());
  momentum_ = arena.tensor(real, {muon});
  exp_avg_ = arena.tensor(real, {adamw});
  exp_avg_sq_ = arena.tensor(real, {adamw});

  muon = adamw = 0;
  for (const model::Parameter& parameter : parameters.all()) {
    const std::string& name = parameter.spec.name;
    const int64_t count = parameter.spec.numel();
    const auto add = [&](const char* kind, const Tensor& flat, int64_t offset) {
      state_.push_back({std::string("optimizer.") + kind + "." + name,
                        shaped(part(flat, offset, count), parameter.spec.shape)});
    };
    if (rule_of(config_.kind, parameter.spec.kind) == Rule::kMuon) {
      add("momentum", momentum_, muon);
      muon += count;
    } else {
      add("exp_avg", exp_avg_, adamw);
      add("exp_avg_sq", exp_avg_sq_, adamw);
      adamw += count;
    }
  }
}

void Optimizer::step_muon(ops::Context& ctx, const Tensor& values, const Tensor& gradient,
                          const Run& run, const StepOptions& options) const {
  const double rate = options.muon_learning_rate;
  // RMS matching: an orthogonal factor has RMS 1/√max(rows, cols); AdamW's update about 0.2 (Liu et
  // al. 2025).
  const double step = rate * 0.2 * std::sqrt(static_cast<double>(std::max(run.rows, run.cols)));
  const double decay = 1 - rate * config_.weight_decay;
  const int64_t count = run.rows * run.cols;
  ArenaScope scope(ctx.scratch());
  const Tensor direction = ctx.scratch().tensor(values.dtype(), {run.rows, run.cols});
  for (int64_t i = 0; i < run.matrices; ++i) {
    const auto matrix = [&](const Tensor& flat, int64_t offset) {
      return part(flat, offset + i * count, count).reshaped({run.rows, run.cols});
    };
    ops::muon_momentum(ctx, matrix(gradient, run.offset), config_.muon_momentum,
                       options.gradient_scale, matrix(momentum_, run.state_offset), direction);
    ops::newton_schulz(ctx, config_.newton_schulz_dtype, direction, direction,
                       config_.newton_schulz_steps);
    ops::muon_apply(ctx, matrix(values, run.offset), direction, decay, step);
  }
}

void Optimizer::step(ops::Context& ctx, model::Parameters& parameters, const Tensor& gradient,
                     const StepOptions& options) const {
  require(gradient.numel() == parameters.numel(), "optimizer: gradient of another size");
  const Tensor& values = parameters.flat();
  ops::AdamWOptions adamw;
  adamw.learning_rate = options.adamw_learning_rate;
  adamw.beta1 = config_.beta1;
  adamw.beta2 = config_.beta2;
  adamw.epsilon = config_.epsilon;
  adamw.step = options.step;
  adamw.gradient_scale = options.gradient_scale;
  for (const Run& run : runs_) {
    if (run.rule == Rule::kMuon) {
      step_muon(ctx, values, gradient, run, options);
      continue;
    }
    adamw.weight_decay = run.rule == Rule::kAdamW ? config_.weight_decay : 0.0;
    ops::adamw(ctx, part(values, run.offset, run.count), part(gradient, run.offset, run.count),
               part(exp_avg_, run.state_offset, run.count),
               part(exp_avg_sq_, run.state_offset, run.count), adamw);
  }
  parameters.touch();
}

}  // namespace athanor::optim
