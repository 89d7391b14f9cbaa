#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/matrix.h"
#include "ops/trace.h"
#include "ops/update.h"

namespace athanor::optim {
namespace {

/// Matrices of at most this many elements are moved by one thread each: cut over threads their products are too short to
/// pay for the waiting, and what one thread needs of such a matrix stays in its caches.
constexpr int64_t kSmallMatrix = int64_t{1} << 20;

}  // namespace

Optimizer::Optimizer(const model::Parameters& parameters, OptimizerConfig config, Arena& arena)
    : config_(config) {
  int64_t muon = 0;
  int64_t adamw = 0;
  for (const model::Parameter& parameter : parameters.all()) {
    const Rule rule = rule_of(config_.kind, parameter.spec.kind);
    const int64_t count = parameter.spec.numel();
    if (rule == Rule::kMuon) {
      const std::vector<int64_t>& shape = parameter.spec.shape;
      Matrix matrix{parameter.offset, muon, shape[shape.size() - 2], shape.back()};
      for (int64_t i = 0; i < count / matrix.count(); ++i) {
        (matrix.count() <= kSmallMatrix ? small_ : large_).push_back(matrix);
        matrix.offset += matrix.count();
        matrix.state_offset += matrix.count();
      }
      muon += count;
      continue;
    }
    Run* last = runs_.empty() ? nullptr : &runs_.back();
    if (last != nullptr && last->rule == rule && last->offset + last->count == parameter.offset) {
      last->count += count;
    } else {
      runs_.push_back({rule, parameter.offset, count, adamw});
    }
    adamw += count;
  }
  std::ranges::sort(small_, [](const Matrix& a, const Matrix& b) {
    return a.count() != b.count() ? a.count() > b.count() : a.offset < b.offset;
  });
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
                        flat.part(offset, count).reshaped(parameter.spec.shape)});
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

void Optimizer::move(ops::Context& ctx, const Tensor& values, const Tensor& gradient,
                     const Matrix& matrix, const StepOptions& options) const {
  const double rate = options.muon_learning_rate;
  // RMS matching: an orthogonal factor has RMS 1/√max(rows, cols); AdamW's update about 0.2 (Liu et
  // al. 2025).
  const double step =
      rate * 0.2 * std::sqrt(static_cast<double>(std::max(matrix.rows, matrix.cols)));
  const double decay = 1 - rate * config_.weight_decay;
  const auto in = [&](const Tensor& flat, int64_t offset) {
    return flat.part(offset, matrix.count()).reshaped({matrix.rows, matrix.cols});
  };
  const ArenaScope scope(ctx.scratch());
  const Tensor direction = ctx.scratch().tensor(values.dtype(), {matrix.rows, matrix.cols});
  ops::muon_momentum(ctx, in(gradient, matrix.offset), config_.muon_momentum,
                     options.gradient_scale, in(momentum_, matrix.state_offset), direction);
  ops::newton_schulz(ctx, config_.newton_schulz_dtype, direction, direction,
                     config_.newton_schulz_steps);
  ops::muon_apply(ctx, in(values, matrix.offset), direction, decay, step);
}

void Optimizer::move_small(ops::Context& ctx, const Tensor& values, const Tensor& gradient,
                           const StepOptions& options) const {
  size_t bytes = 0;
  for (size_t i = 0; i < small_.size(); ++i) {
    if (i > 0 && small_[i].rows == small_[i - 1].rows && small_[i].cols == small_[i - 1].cols) {
      continue;
    }
    Arena planned("matrix");
    ops::Context planning(Threads(1), planned, ctx.isa());
    move(planning, values, gradient, small_[i], options);
    bytes = std::max(bytes, planned.peak());
  }
  const ArenaScope scope(ctx.scratch());
  auto* memory = static_cast<std::byte*>(
      ctx.scratch().allocate(bytes * static_cast<size_t>(ctx.threads().count())));
  if (ctx.planning()) return;
  // One span for all: the threads' own contexts have no trace.
  const ops::TraceSpan span(ctx, "muon_side_by_side", [&] {
    ops::OpWork work{.shape = {static_cast<int64_t>(small_.size())},
                     .compute = config_.newton_schulz_dtype};
    for (const Matrix& matrix : small_) {
      work.flops += ops::newton_schulz_flops(matrix.rows, matrix.cols, config_.newton_schulz_steps);
      // The gradient is read, momentum and values are read and written.
      work.bytes +=
          5.0 * static_cast<double>(matrix.count()) * static_cast<double>(size_of(values.dtype()));
    }
    return work;
  });
  ctx.threads().run(static_cast<int64_t>(small_.size()), [&](int64_t i, int thread) {
    Arena own("matrix");
    own.borrow(memory + static_cast<size_t>(thread) * bytes, bytes);
    ops::Context alone(Threads(1), own, ctx.isa());
    move(alone, values, gradient, small_[static_cast<size_t>(i)], options);
  });
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
  move_small(ctx, values, gradient, options);
  for (const Matrix& matrix : large_) move(ctx, values, gradient, matrix, options);
  for (const Run& run : runs_) {
    adamw.weight_decay = run.rule == Rule::kAdamW ? config_.weight_decay : 0.0;
    ops::adamw(ctx, values.part(run.offset, run.count), gradient.part(run.offset, run.count),
               exp_avg_.part(run.state_offset, run.count),
               exp_avg_sq_.part(run.state_offset, run.count), adamw);
  }
  parameters.touch();
}

}  // namespace athanor::optim
