// The learned residual scaling: its four vectors and who may use them (zaya1.md §2.1).
#pragma once

#include <string>

#include "model/parameters.h"
#include "model/pass.h"
#include "ops/norm.h"

namespace athanor::model {

class Residual {
 public:
  /// "<prefix>hidden_states_scale" and so on; the input affine has no residual part.
  Residual(const Parameters& parameters, const std::string& prefix, bool with_residual = true);

  /// out (real [T, D], may be r) from the branch's output m and the residual r, real [T, D]; r
  /// empty in the input affine.
  void forward(Pass& pass, const Tensor& m, const Tensor& r, const Tensor& out) const;
  /// dm (real or act) is written; dr (real, in: the gradient of `out`, out: that of r; unchanged in
  /// the input affine).
  void backward(Pass& pass, const Tensor& m, const Tensor& r, const Tensor& dm, const Tensor& dr,
                GradientSink& sink) const;

 private:
  const Parameter &hidden_scale_, &hidden_bias_;
  const Parameter *residual_scale_, *residual_bias_;
};

}  // namespace athanor::model
