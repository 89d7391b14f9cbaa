// The balancing controller: moves the routers' selection biases so that experts share the tokens
// (zaya1.md §2.5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "ops/context.h"
#include "optim/state.h"

namespace athanor::optim {

/// AdamW (β .9/.999, ε 1e-8, no decay) on the balancing biases, with g_e = count_e/N − 1/E over the
/// global batch as the gradient. The skip class is left out: its bias is never moved, its tokens
/// count in N alone.
class BalancingController {
 public:
  /// Moments real [L, E+1] each from `arena` (the skip class's stay 0) and room for the gradient.
  BalancingController(const model::ModelConfig& config, ops::Precision precision, Arena& arena);

  /// One step on `biases` (real [L, E+1]). `counts` [L·(E+1)] are tokens by class over the global
  /// batch, the skip class last. g is formed from integers, so that count·E = N gives exactly 0:
  /// AdamW would blow up a rounding residue. A layer that routed no token stays.
  void step(ops::Context& ctx, const Tensor& biases, std::span<const int64_t> counts,
            double learning_rate, int64_t step) const;

  /// "optimizer.exp_avg.<bias>" and "optimizer.exp_avg_sq.<bias>", [E+1] each.
  const std::vector<StateTensor>& state() const { return state_; }

 private:
  int64_t layers_;
  int64_t experts_;
  Tensor exp_avg_;
  Tensor exp_avg_sq_;
  Tensor gradient_;
  std::vector<StateTensor> state_;
};

}  // namespace athanor::optim
