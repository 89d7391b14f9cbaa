// One hybrid layer: attention and experts around the residual stream (zaya1.md §2.1).
#pragma once

#include <span>

#include "model/cca.h"
#include "model/experts.h"
#include "model/residual.h"
#include "model/router.h"

namespace athanor::model {

/// What the backward needs of a forward beside the block's inputs: these are dropped and made again
/// under recomputation.
struct BlockActivations {
  Tensor attention_input;     ///< act [T, D]
  Tensor attention_inv_norm;  ///< real [T]
  CcaActivations cca;
  Tensor attention_output;  ///< real [T, D]
  Tensor middle;            ///< real [T, D], the residual stream between the halves
  Tensor experts_input;     ///< act [T, D]
  Tensor experts_inv_norm;  ///< real [T]
  RouterActivations router;
  ExpertsActivations experts;
  Tensor experts_output;  ///< real [T, D]
};

class Block {
 public:
  Block(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
        const ops::RopeTable& rope, bool balanced_routing = false);
  void refresh(ops::Context& ctx);

  BlockActivations allocate(Arena& arena, int64_t tokens, std::span<int64_t> offsets) const;
  /// residual_out (real [T, D], may be `residual`) and state (real [T, R]) are written. `previous`
  /// is the router state of the layer before, empty in layer 0.
  void forward(Pass& pass, const Tensor& residual, const Tensor& previous,
               const BlockActivations& saved, const Tensor& residual_out, const Tensor& state);
  /// dresidual (real [T, D]): in, the gradient of residual_out, out, that of `residual`. dstate
  /// (real [T, R]): in, what the layer after adds to the state's gradient; used up. dprevious is
  /// written (empty in layer 0).
  void backward(Pass& pass, const Tensor& residual, const Tensor& previous,
                const BlockActivations& saved, const Tensor& state, const Tensor& dresidual,
                const Tensor& dstate, const Tensor& dprevious, GradientSink& sink);

 private:
  const ModelConfig& config_;
  int64_t layer_;
  DType real_, act_;
  const Parameter &attention_norm_, &experts_norm_;
  Cca cca_;
  Residual attention_residual_;
  Router router_;
  Experts experts_;
  Residual experts_residual_;
};

}  // namespace athanor::model
