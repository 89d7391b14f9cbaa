#include "optim/optimizer.h"

#include <algorithm>
#include <array>
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

/// Calls `use` for the parts of `t`, a vector, that one transfer can carry.
template <class Use>
void for_parts(const comm::Communicator& communicator, const Tensor& t, Use use) {
  const auto most = static_cast<int64_t>(communicator.largest_part() / size_of(t.dtype()));
  for (int64_t at = 0; at < t.numel(); at += most) use(t.part(at, std::min(most, t.numel() - at)));
}

}  // namespace

Optimizer::Optimizer(const model::Parameters& parameters, OptimizerConfig config,
                     const Partition& partition, int rank, Arena& arena)
    : config_(config),
      rank_(rank),
      real_(ops::real_dtype(parameters.precision())),
      matrices_begin_(parameters.matrices_begin()) {
  std::vector<Piece> owned;
  std::ranges::copy_if(partition.pieces(), std::back_inserter(owned),
                       [&](const Piece& piece) { return piece.owner == rank; });
  std::vector<const model::Parameter*> in_flat_order;
  for (const model::Parameter& parameter : parameters.all()) in_flat_order.push_back(&parameter);
  std::ranges::sort(in_flat_order, {}, &model::Parameter::offset);

  // Twice: the state's sizes are known after the first time, its views made in the second.
  int64_t muon = 0;
  int64_t adamw = 0;
  for (const bool views : {false, true}) {
    if (views) {
      momentum_ = arena.tensor(real_, {muon});
      exp_avg_ = arena.tensor(real_, {adamw});
      exp_avg_sq_ = arena.tensor(real_, {adamw});
      muon = adamw = 0;
    }
    for (const model::Parameter* parameter : in_flat_order) {
      for (const Piece& piece : owned) {
        const int64_t begin = std::max(piece.begin, parameter->offset);
        const int64_t end = std::min(piece.end, parameter->offset + parameter->spec.numel());
        if (begin >= end) continue;
        const Rule rule = rule_of(config_.kind, parameter->spec.kind);
        if (rule == Rule::kMuon) {
          if (views) {
            add_view("momentum", *parameter, begin, momentum_.part(muon, end - begin));
          } else if (muon == 0) {
            momentum_begin_ = begin;
          }
          muon += end - begin;
        } else {
          if (views) {
            add_view("exp_avg", *parameter, begin, exp_avg_.part(adamw, end - begin));
            add_view("exp_avg_sq", *parameter, begin, exp_avg_sq_.part(adamw, end - begin));
          } else {
            add_run(rule, begin, end, adamw);
          }
          adamw += end - begin;
        }
      }
    }
  }
  sort_matrices(plan_muon(parameters, config_.kind, partition, config_.newton_schulz_steps));
}

void Optimizer::add_view(const char* kind, const model::Parameter& parameter, int64_t begin,
                         const Tensor& value) {
  state_.push_back({std::string("optimizer.") + kind + "." + parameter.spec.name,
                    parameter.spec.shape, begin - parameter.offset, value});
}

void Optimizer::add_run(Rule rule, int64_t begin, int64_t end, int64_t state_offset) {
  Run* last = runs_.empty() ? nullptr : &runs_.back();
  if (last != nullptr && last->rule == rule && last->offset + last->count == begin &&
      begin != matrices_begin_) {
    last->count += end - begin;
  } else {
    runs_.push_back({rule, begin, end - begin, state_offset});
  }
}

void Optimizer::sort_matrices(const std::vector<MuonMatrix>& matrices) {
  int tag = 0;
  for (const MuonMatrix& matrix : matrices) {
    const bool cut = matrix.parts.size() > 1;
    const auto own = std::ranges::find(matrix.parts, rank_, &Piece::owner);
    if (own != matrix.parts.end()) {
      const int64_t state_offset = matrix.offset + own->begin - momentum_begin_;
      if (cut) {
        cut_.push_back({matrix, *own, state_offset, tag});
      } else {
        (matrix.count() <= kSmallMatrix ? small_ : large_)
            .push_back({matrix.offset, state_offset, matrix.rows, matrix.cols});
      }
    }
    if (cut) ++tag;
  }
  std::ranges::sort(small_, [](const Matrix& a, const Matrix& b) {
    return a.count() != b.count() ? a.count() > b.count() : a.offset < b.offset;
  });
}

Optimizer::Factors Optimizer::factors(int64_t rows, int64_t cols,
                                      const StepOptions& options) const {
  const double rate = options.muon_learning_rate;
  // RMS matching: an orthogonal factor has RMS 1/√max(rows, cols); AdamW's update about 0.2 (Liu et
  // al. 2025).
  return {1 - rate * config_.weight_decay,
          rate * 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)))};
}

void Optimizer::move(ops::Context& ctx, const model::FlatSpace& masters, const Tensor& gradient,
                     const Matrix& matrix, const StepOptions& options) const {
  const Factors f = factors(matrix.rows, matrix.cols, options);
  const auto in = [&](const Tensor& flat, int64_t offset) {
    return flat.part(offset, matrix.count()).reshaped({matrix.rows, matrix.cols});
  };
  const ArenaScope scope(ctx.scratch());
  const Tensor direction = ctx.scratch().tensor(real_, {matrix.rows, matrix.cols});
  ops::muon_momentum(ctx, in(gradient, matrix.offset), config_.muon_momentum,
                     options.gradient_scale, in(momentum_, matrix.state_offset), direction);
  ops::newton_schulz(ctx, config_.newton_schulz_dtype, direction, direction,
                     config_.newton_schulz_steps);
  ops::muon_apply(ctx,
                  masters.part(matrix.offset, matrix.count()).reshaped({matrix.rows, matrix.cols}),
                  direction, f.decay, f.step);
}

void Optimizer::move_small(ops::Context& ctx, const model::FlatSpace& masters,
                           const Tensor& gradient, const StepOptions& options) const {
  size_t bytes = 0;
  for (size_t i = 0; i < small_.size(); ++i) {
    if (i > 0 && small_[i].rows == small_[i - 1].rows && small_[i].cols == small_[i - 1].cols) {
      continue;
    }
    Arena planned("matrix");
    ops::Context planning(Threads(1), planned, ctx.isa());
    move(planning, masters, gradient, small_[i], options);
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
      work.bytes += 5.0 * static_cast<double>(matrix.count()) * static_cast<double>(size_of(real_));
    }
    return work;
  });
  ctx.threads().run(static_cast<int64_t>(small_.size()), [&](int64_t i, int thread) {
    Arena own("matrix");
    own.borrow(memory + static_cast<size_t>(thread) * bytes, bytes);
    ops::Context alone(Threads(1), own, ctx.isa());
    move(alone, masters, gradient, small_[static_cast<size_t>(i)], options);
  });
}

Tensor Optimizer::part_of(const CutMatrix& cut, const Tensor& direction) const {
  const int64_t count = cut.own.end - cut.own.begin;
  return cut.matrix.worker == rank_ ? direction.part(cut.own.begin, count) : direction;
}

void Optimizer::begin_cut(ops::Context& ctx, comm::Communicator& communicator, const CutMatrix& cut,
                          const Tensor& gradient, const StepOptions& options,
                          const Tensor& direction, Tickets& open) const {
  const int64_t count = cut.own.end - cut.own.begin;
  ops::muon_momentum(ctx, gradient.part(cut.matrix.offset + cut.own.begin, count),
                     config_.muon_momentum, options.gradient_scale,
                     momentum_.part(cut.state_offset, count), part_of(cut, direction));
  if (ctx.planning()) return;
  if (cut.matrix.worker != rank_) {
    for_parts(communicator, direction, [&](const Tensor& part) {
      open.push_back(communicator.start_send(part, cut.matrix.worker, cut.tag));
    });
    return;
  }
  for (const Piece& piece : cut.matrix.parts) {
    if (piece.owner == rank_) continue;
    for_parts(communicator, direction.part(piece.begin, piece.end - piece.begin),
              [&](const Tensor& part) {
                open.push_back(communicator.start_receive(part, piece.owner, cut.tag));
              });
  }
}

void Optimizer::orthogonalise_cut(ops::Context& ctx, comm::Communicator& communicator,
                                  const CutMatrix& cut, const Tensor& direction,
                                  Tickets& open) const {
  const Tensor whole = direction.reshaped({cut.matrix.rows, cut.matrix.cols});
  ops::newton_schulz(ctx, config_.newton_schulz_dtype, whole, whole, config_.newton_schulz_steps);
  if (ctx.planning()) return;
  for (const Piece& piece : cut.matrix.parts) {
    if (piece.owner == rank_) continue;
    for_parts(communicator, direction.part(piece.begin, piece.end - piece.begin),
              [&](const Tensor& part) {
                open.push_back(communicator.start_send(part, piece.owner, cut.tag));
              });
  }
}

void Optimizer::move_cut(ops::Context& ctx, comm::Communicator& communicator,
                         const model::FlatSpace& masters, std::span<const Tensor> directions,
                         const StepOptions& options, Moved moved, Tickets& open) const {
  // Not for all that goes on: what other ranks have moved arrives meanwhile, and they may wait for this one.
  const auto wait = [&] {
    for (const comm::Communicator::Ticket ticket : open) communicator.wait(ticket);
    open.clear();
  };
  wait();
  for (size_t i = 0; i < cut_.size(); ++i) {
    if (cut_[i].matrix.worker == rank_) {
      orthogonalise_cut(ctx, communicator, cut_[i], directions[i], open);
    } else if (!ctx.planning()) {
      for_parts(communicator, directions[i], [&](const Tensor& part) {
        open.push_back(communicator.start_receive(part, cut_[i].matrix.worker, cut_[i].tag));
      });
    }
  }
  wait();
  for (size_t i = 0; i < cut_.size(); ++i) {
    const CutMatrix& cut = cut_[i];
    const Factors f = factors(cut.matrix.rows, cut.matrix.cols, options);
    const int64_t begin = cut.matrix.offset + cut.own.begin;
    const Tensor part = part_of(cut, directions[i]);
    ops::muon_apply(ctx, masters.part(begin, part.numel()), part, f.decay, f.step);
    moved(begin, begin + part.numel());
  }
}

void Optimizer::step(ops::Context& ctx, comm::Communicator& communicator,
                     const model::FlatSpace& masters, const Tensor& gradient,
                     const StepOptions& options, Moved moved) const {
  const ArenaScope scope(ctx.scratch());
  std::array<Tensor, kMostCut> directions;
  Tickets open;
  for (size_t i = 0; i < cut_.size(); ++i) {
    const CutMatrix& cut = cut_[i];
    const int64_t count =
        cut.matrix.worker == rank_ ? cut.matrix.count() : cut.own.end - cut.own.begin;
    directions[i] = ctx.scratch().tensor(real_, {count});
    begin_cut(ctx, communicator, cut, gradient, options, directions[i], open);
  }
  ops::AdamWOptions adamw;
  adamw.learning_rate = options.adamw_learning_rate;
  adamw.beta1 = config_.beta1;
  adamw.beta2 = config_.beta2;
  adamw.epsilon = config_.epsilon;
  adamw.step = options.step;
  adamw.gradient_scale = options.gradient_scale;
  for (const Run& run : runs_) {
    adamw.weight_decay = run.rule == Rule::kAdamW ? config_.weight_decay : 0.0;
    ops::adamw(ctx, masters.part(run.offset, run.count), gradient.part(run.offset, run.count),
               exp_avg_.part(run.state_offset, run.count),
               exp_avg_sq_.part(run.state_offset, run.count), adamw);
    moved(run.offset, run.offset + run.count);
  }
  move_small(ctx, masters, gradient, options);
  for (const Matrix& matrix : small_) moved(matrix.offset, matrix.offset + matrix.count());
  for (const Matrix& matrix : large_) {
    move(ctx, masters, gradient, matrix, options);
    moved(matrix.offset, matrix.offset + matrix.count());
  }
  if (!cut_.empty()) move_cut(ctx, communicator, masters, directions, options, moved, open);
}

}  // namespace athanor::optim
