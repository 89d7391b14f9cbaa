// The ZAYA1 router: one layer's parameters, forward and backward (zaya1.md §2.3).
#pragma once

#include "model/packed_weight.h"
#include "model/parameters.h"
#include "model/pass.h"

namespace athanor::model {

/// What the backward needs of a forward; T tokens.
struct RouterActivations {
  Tensor normed;       ///< real [T, R], s
  Tensor inv_norm;     ///< real [T]
  Tensor first;        ///< real [T, R], before the first GELU
  Tensor first_gelu;   ///< real [T, R]
  Tensor second;       ///< real [T, R], before the second GELU
  Tensor second_gelu;  ///< real [T, R]
  Tensor probability;  ///< real [T, E+1]
  Tensor expert;       ///< i32 [T], E: skip
  Tensor weight;       ///< real [T], 0 for a skipped token
};

class Router {
 public:
  /// `balanced`: as ModelOptions::balanced_routing.
  Router(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
         bool balanced = false);
  void refresh(ops::Context& ctx);

  RouterActivations allocate(Arena& arena, int64_t tokens) const;
  /// Chooses from x act [T, D]. `state` (real [T, R]) is written; `previous` is the layer before's,
  /// empty in layer 0.
  void forward(Pass& pass, const Tensor& x, const Tensor& previous, const RouterActivations& saved,
               const Tensor& state);
  /// From dweight real [T] and dstate (real [T, R]: in, what the layer after adds to this state's
  /// gradient; used up): dprevious (real [T, R], empty in layer 0) and dx (real [T, D]) are
  /// written.
  void backward(Pass& pass, const Tensor& dweight, const Tensor& x, const Tensor& previous,
                const RouterActivations& saved, const Tensor& state, const Tensor& dstate,
                const Tensor& dprevious, const Tensor& dx, GradientSink& sink);

 private:
  const ModelConfig& config_;
  int64_t layer_;
  bool balanced_;
  DType real_, act_;
  Tensor biases_;  ///< real [E+1], for the selection alone

  const Parameter &down_, &down_bias_;
  const Parameter* state_scale_;  ///< γ; none in layer 0
  const Parameter& norm_;
  const Parameter &first_, &first_bias_, &second_, &second_bias_, &out_;

  PackedWeight packed_down_, packed_first_, packed_second_, packed_out_;
};

}  // namespace athanor::model
