// Muon and AdamW over the flat parameter space.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.h"
#include "ops/context.h"
#include "optim/groups.h"
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

/// Moves parameters by their gradients. The state lies flat beside the master weights, real dtype:
/// Muon keeps one momentum, AdamW two moments, each in the order of the flat space over its own
/// tensors.
class Optimizer {
 public:
  /// Takes the state from `arena`. The Parameters' layout is borrowed by every call, never kept.
  Optimizer(const model::Parameters& parameters, OptimizerConfig config, Arena& arena);

  /// One step on `gradient` (real [numel], the flat space): parameters change in place and are
  /// touch()ed. Muon: M ← μM+(1−μ)G, N = (1−μ)G+μM, O = newton_schulz(N), p ← p(1−lr·wd) −
  /// lr·0.2·√max(rows, cols)·O (golden/README "Muon"). AdamW: ops::adamw.
  void step(ops::Context& ctx, model::Parameters& parameters, const Tensor& gradient,
            const StepOptions& options) const;

  /// "optimizer.momentum.<name>", "optimizer.exp_avg.<name>", "optimizer.exp_avg_sq.<name>", shaped
  /// as the parameter.
  const std::vector<StateTensor>& state() const { return state_; }

 private:
  /// Neighbours under one rule: AdamW moves them in one pass.
  struct Run {
    Rule rule;
    int64_t offset;        ///< in the flat space
    int64_t count;         ///< elements
    int64_t state_offset;  ///< in exp_avg_ and exp_avg_sq_
  };
  /// One matrix that Muon moves.
  struct Matrix {
    int64_t offset, state_offset, rows, cols;
    int64_t count() const { return rows * cols; }
  };
  void move(ops::Context& ctx, const Tensor& values, const Tensor& gradient, const Matrix& matrix,
            const StepOptions& options) const;
  void move_small(ops::Context& ctx, const Tensor& values, const Tensor& gradient,
                  const StepOptions& options) const;

  OptimizerConfig config_;
  std::vector<Run> runs_;      ///< AdamW's
  std::vector<Matrix> large_;  ///< moved one after the other, each by all threads
  std::vector<Matrix> small_;  ///< moved side by side, each by one thread; the largest first
  Tensor momentum_;
  Tensor exp_avg_;
  Tensor exp_avg_sq_;
  std::vector<StateTensor> state_;
};

}  // namespace athanor::optim
