#include "model/residual.h"

namespace athanor::model {

Residual::Residual(const Parameters& parameters, const std::string& prefix, bool with_residual)
    : hidden_scale_(parameters.find(prefix + "hidden_states_scale")),
      hidden_bias_(parameters.find(prefix + "hidden_states_bias")),
      residual_scale_(with_residual ? &parameters.find(prefix + "residual_scale") : nullptr),
      residual_bias_(with_residual ? &parameters.find(prefix + "residual_bias") : nullptr) {}

// out = (m + b_h) ⊙ s_h + (r + b_r) ⊙ s_r
void Residual::forward(Pass& pass, const Tensor& m, const Tensor& r, const Tensor& out) const {
  ops::ResidualScale scale{hidden_scale_.value, hidden_bias_.value, {}, {}};
  if (residual_scale_ != nullptr) {
    scale.residual_scale = residual_scale_->value;
    scale.residual_bias = residual_bias_->value;
  }
  ops::residual_affine(pass.ctx, m, r, scale, out);
}

// dm = dout ⊙ s_h, dr = dout ⊙ s_r, and the sums over tokens for the four vectors
void Residual::backward(Pass& pass, const Tensor& m, const Tensor& r, const Tensor& dm,
                        const Tensor& dr, GradientSink& sink) const {
  ops::ResidualScale scale{hidden_scale_.value, hidden_bias_.value, {}, {}};
  ops::ResidualScale gradients{hidden_scale_.gradient, hidden_bias_.gradient, {}, {}};
  const bool with_residual = residual_scale_ != nullptr;
  if (with_residual) {
    scale.residual_scale = residual_scale_->value;
    scale.residual_bias = residual_bias_->value;
    gradients.residual_scale = residual_scale_->gradient;
    gradients.residual_bias = residual_bias_->gradient;
  }
  ops::residual_affine_backward(pass.ctx, dr, m, r, scale, dm, with_residual ? dr : Tensor{},
                                gradients);
  if (with_residual) {
    sink.ready(*residual_bias_);
    sink.ready(*residual_scale_);
  }
  sink.ready(hidden_bias_);
  sink.ready(hidden_scale_);
}

}  // namespace athanor::model
