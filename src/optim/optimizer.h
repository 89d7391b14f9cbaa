// Muon and AdamW over a rank's part of the flat parameter space.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "comm/communicator.h"
#include "model/parameters.h"
#include "ops/context.h"
#include "optim/groups.h"
#include "optim/partition.h"
#include "optim/state.h"

namespace athanor::optim {

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kMuon;
  double muon_momentum = 0.95;
  int newton_schulz_steps = 5;
  DType newton_schulz_dtype =
      DType::kBF16;           ///< of the products: bf16, f32, or f64 for fp64 parameters
  double weight_decay = 0.1;  ///< decoupled, times the plain learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
};

struct StepOptions {
  double muon_learning_rate = 0;
  double adamw_learning_rate = 0;
  double gradient_scale = 1;  ///< clipping, applied to every gradient as it is read
  int64_t step = 1;           ///< applied steps including this one, from 1: the bias corrections
};

/// Told which elements [begin, end) of the flat space have moved for good, once each.
using Moved = FunctionRef<void(int64_t begin, int64_t end)>;

/// Moves the part of the parameters that a rank owns by its gradient. The state lies flat, real dtype: Muon keeps one momentum,
/// AdamW two moments, each in the order of the flat space over the owned elements of its own tensors.
class Optimizer {
 public:
  /// The state of `rank`, from `arena`. The Parameters' layout is borrowed by every call, never kept.
  Optimizer(const model::Parameters& parameters, OptimizerConfig config, const Partition& partition,
            int rank, Arena& arena);

  /// One step on `gradient` (real [numel], the flat space; the owned elements are read) of `masters`, the owned elements: they
  /// change in place. Muon: M ← μM+(1−μ)G, N = (1−μ)G+μM, O = newton_schulz(N), p ← p(1−lr·wd) −
  /// lr·0.2·√max(rows, cols)·O (golden/README "Muon"). AdamW: ops::adamw.
  /// Of a matrix that several ranks own, its worker alone sees the whole: the others send it their parts of N and get back
  /// theirs of O, while all move what needs nobody else (zaya1.md §7.4). Same bits for any number of ranks.
  void step(ops::Context& ctx, comm::Communicator& communicator, const model::FlatSpace& masters,
            const Tensor& gradient, const StepOptions& options, Moved moved) const;

  /// "optimizer.momentum.<name>", "optimizer.exp_avg.<name>", "optimizer.exp_avg_sq.<name>": the owned parts.
  const std::vector<StateTensor>& state() const { return state_; }

 private:
  /// Neighbours under one rule: AdamW moves them in one pass.
  struct Run {
    Rule rule;
    int64_t offset;        ///< in the flat space
    int64_t count;         ///< elements
    int64_t state_offset;  ///< in exp_avg_ and exp_avg_sq_
  };
  /// One matrix that Muon moves here.
  struct Matrix {
    int64_t offset, state_offset, rows, cols;
    int64_t count() const { return rows * cols; }
  };
  /// One matrix that is not wholly this rank's, in the order of the flat space.
  struct CutMatrix {
    MuonMatrix matrix;
    Piece own;             ///< this rank's part
    int64_t state_offset;  ///< of that part
    int tag;
  };
  struct Factors {
    double decay, step;
  };
  /// An edge of the partition cuts one matrix, and a rank's matrices lie between two edges.
  static constexpr size_t kMostCut = 2;
  using Tickets = std::vector<comm::Communicator::Ticket>;

  void add_view(const char* kind, const model::Parameter& parameter, int64_t begin,
                const Tensor& value);
  void add_run(Rule rule, int64_t begin, int64_t end, int64_t state_offset);
  void sort_matrices(const std::vector<MuonMatrix>& matrices);
  Factors factors(int64_t rows, int64_t cols, const StepOptions& options) const;
  void move(ops::Context& ctx, const model::FlatSpace& masters, const Tensor& gradient,
            const Matrix& matrix, const StepOptions& options) const;
  void move_small(ops::Context& ctx, const model::FlatSpace& masters, const Tensor& gradient,
                  const StepOptions& options) const;
  /// This rank's part of what `direction` holds: the whole matrix on its worker, the part alone elsewhere.
  Tensor part_of(const CutMatrix& cut, const Tensor& direction) const;
  /// Works out this rank's part of N and sets it, or what the worker still lacks, on its way.
  void begin_cut(ops::Context& ctx, comm::Communicator& communicator, const CutMatrix& cut,
                 const Tensor& gradient, const StepOptions& options, const Tensor& direction,
                 Tickets& open) const;
  void orthogonalise_cut(ops::Context& ctx, comm::Communicator& communicator, const CutMatrix& cut,
                         const Tensor& direction, Tickets& open) const;
  void move_cut(ops::Context& ctx, comm::Communicator& communicator,
                const model::FlatSpace& masters, std::span<const Tensor> directions,
                const StepOptions& options, Moved moved, Tickets& open) const;

  OptimizerConfig config_;
  int rank_;
  DType real_;
  int64_t matrices_begin_;      ///< in the flat space
  std::vector<Run> runs_;       ///< AdamW's
  std::vector<Matrix> large_;   ///< moved one after the other, each by all threads
  std::vector<Matrix> small_;   ///< moved side by side, each by one thread; the largest first
  std::vector<CutMatrix> cut_;  ///< moved with other ranks, in the order of the flat space
  int64_t momentum_begin_ = 0;  ///< in the flat space: where the owned matrices begin
  Tensor momentum_;
  Tensor exp_avg_;
  Tensor exp_avg_sq_;
  std::vector<StateTensor> state_;
};

}  // namespace athanor::optim
