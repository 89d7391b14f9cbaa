// Compressed convolutional attention: one layer's parameters, forward and backward (zaya1.md §2.2).
#pragma once

#include "model/packed_weight.h"
#include "model/parameters.h"
#include "model/pass.h"

namespace athanor::model {

/// What the backward needs of a forward; T tokens.
struct CcaActivations {
  Tensor qkv;       ///< real [T, C + 2·value_half]: c = [q0 ‖ k0], current and delayed values
  Tensor z;         ///< real [T, C]: convolved, means added, before the norm
  Tensor inv_norm;  ///< real [T, Hq + Hk]
  Tensor q;         ///< act [T, Hq·d], normed and rotated
  Tensor k;         ///< act [T, Hk·d]
  Tensor v;         ///< act [T, Hk·d]
  Tensor attended;  ///< act [T, Hq·d]
  Tensor lse;       ///< real [T, Hq]
};

class Cca {
 public:
  /// `rope` must outlive the layer; it may be rebuilt in place.
  Cca(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
      const ops::RopeTable& rope);
  void refresh(ops::Context& ctx);

  CcaActivations allocate(Arena& arena, int64_t tokens) const;
  /// out real [T, D] from x act [T, D]. Decoding reads and advances layer `layer` of the pass's
  /// states.
  void forward(Pass& pass, const Tensor& x, const CcaActivations& saved, const Tensor& out);
  /// dx (real [T, D]) is written, from dout act [T, D].
  void backward(Pass& pass, const Tensor& dout, const Tensor& x, const CcaActivations& saved,
                const Tensor& dx, GradientSink& sink);

 private:
  void attend(Pass& pass, const CcaActivations& saved);
  Tensor convolution_history(Pass& pass) const;
  Tensor value_history(Pass& pass) const;
  void advance(Pass& pass, const CcaActivations& saved) const;
  ops::ConvolutionWeights convolution() const;
  /// The four projections of `first` and its neighbours as one matrix [C + 2·value_half, D].
  Tensor joined(const Tensor& first) const;

  const ModelConfig& config_;
  int64_t layer_;
  DType real_, act_;
  const ops::RopeTable& rope_;
  ops::AttentionShape shape_;

  const Parameter &query_, &key_, &value_current_, &value_delayed_;
  const Parameter &depthwise_, &depthwise_bias_, &grouped_, &grouped_bias_;
  const Parameter &temperature_, &output_;

  PackedWeight packed_qkv_;
  PackedWeight packed_output_;
  PackedStack packed_grouped_;  ///< one a head: [d, 2d] and its transpose
};

}  // namespace athanor::model
