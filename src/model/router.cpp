#include "model/router.h"

#include <fmt/format.h>

#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/routing.h"
#include "ops/trace.h"

namespace athanor::model {
namespace {

const Parameter& gate(const Parameters& parameters, int64_t layer, const char* name) {
  return parameters.find(fmt::format("model.layers.{}.mlp.gate.{}", layer, name));
}

/// Token t goes to expert t mod E, with that expert's probability.
template <class Real>
void route_evenly(const RouterActivations& saved) {
  const int64_t experts = saved.probability.cols() - 1;
  for (int64_t t = 0; t < saved.probability.rows(); ++t) {
    const int64_t expert = t % experts;
    saved.expert.as<int32_t>()[t] = static_cast<int32_t>(expert);
    saved.weight.as<Real>()[t] = saved.probability.row<Real>(t)[expert];
  }
}

}  // namespace

Router::Router(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
               bool balanced)
    : config_(parameters.config()),
      layer_(layer),
      balanced_(balanced),
      real_(ops::real_dtype(parameters.precision())),
      act_(ops::act_dtype(parameters.precision())),
      biases_(parameters.balancing_biases().at(layer)),
      down_(gate(parameters, layer, "down_proj.weight")),
      down_bias_(gate(parameters, layer, "down_proj.bias")),
      state_scale_(layer == 0 ? nullptr : &gate(parameters, layer, "router_states_scale")),
      norm_(gate(parameters, layer, "router_mlp.norm.weight")),
      first_(gate(parameters, layer, "router_mlp.fc1.weight")),
      first_bias_(gate(parameters, layer, "router_mlp.fc1.bias")),
      second_(gate(parameters, layer, "router_mlp.fc2.weight")),
      second_bias_(gate(parameters, layer, "router_mlp.fc2.bias")),
      out_(gate(parameters, layer, "router_mlp.out_proj.weight")) {
  const int64_t width = config_.router;
  packed_down_ = allocate_packed(weights, act_, width, config_.hidden, training);
  packed_first_ = allocate_packed(weights, real_, width, width, training);
  packed_second_ = allocate_packed(weights, real_, width, width, training);
  packed_out_ = allocate_packed(weights, real_, config_.classes(), width, training);
}

void Router::refresh(ops::Context& ctx) {
  pack(ctx, down_.value, packed_down_);
  pack(ctx, first_.value, packed_first_);
  pack(ctx, second_.value, packed_second_);
  pack(ctx, out_.value, packed_out_);
}

RouterActivations Router::allocate(Arena& arena, int64_t tokens) const {
  const int64_t width = config_.router;
  RouterActivations a;
  a.normed = arena.tensor(real_, {tokens, width});
  a.inv_norm = arena.tensor(real_, {tokens});
  a.first = arena.tensor(real_, {tokens, width});
  a.first_gelu = arena.tensor(real_, {tokens, width});
  a.second = arena.tensor(real_, {tokens, width});
  a.second_gelu = arena.tensor(real_, {tokens, width});
  a.probability = arena.tensor(real_, {tokens, config_.classes()});
  a.expert = arena.tensor(DType::kI32, {tokens});
  a.weight = arena.tensor(real_, {tokens});
  return a;
}

// r̃_l = W_down x + b_down + γ ⊙ r̃_{l−1}                    (layer 0: without γ)
// u = W3 · gelu(W2 · gelu(W1 · RMSNorm(r̃_l) + b1) + b2)
// p = softmax(u), e = argmax(p + b), weight = p_e
// A rounding here can send a token elsewhere: all behind the first product is real in every precision,
// and that product alone takes rounded factors. The three small products cost little.
void Router::forward(Pass& pass, const Tensor& x, const Tensor& previous,
                     const RouterActivations& saved, const Tensor& state) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "router");
  ops::linear(ctx, x, packed_down_.forward, state, down_bias_.value);
  if (state_scale_ != nullptr) {
    ops::depth_average(ctx, state, state_scale_->value, previous, state);
  }
  observe(pass, layer_, "router_state", state);
  ops::rms_norm(ctx, state, norm_.value, config_.rms_norm_eps, saved.normed, saved.inv_norm);
  ops::linear(ctx, saved.normed, packed_first_.forward, saved.first, first_bias_.value);
  ops::gelu(ctx, saved.first, saved.first_gelu);
  ops::linear(ctx, saved.first_gelu, packed_second_.forward, saved.second, second_bias_.value);
  ops::gelu(ctx, saved.second, saved.second_gelu);

  ArenaScope scope(pass.arena);
  const Tensor logits = pass.arena.tensor(real_, {x.rows(), config_.classes()});
  ops::linear(ctx, saved.second_gelu, packed_out_.forward, logits);
  observe(pass, layer_, "router_logits", logits);
  ops::route(ctx, logits, biases_, saved.probability, saved.expert, saved.weight);
  if (balanced_ && !pass.planning()) {
    real_ == DType::kF64 ? route_evenly<double>(saved) : route_evenly<float>(saved);
  }
  observe(pass, layer_, "expert", saved.expert);
  observe(pass, layer_, "expert_prob", saved.weight);
  observe_margin(pass, layer_, saved.probability, biases_);
}

// The choice and its biases have no gradient; p_e has one through the softmax over all classes. The
// state's gradient is the sum of what comes back through the norm here and through γ of the layer
// after, and goes on to the layer before.
void Router::backward(Pass& pass, const Tensor& dweight, const Tensor& x, const Tensor& previous,
                      const RouterActivations& saved, const Tensor& state, const Tensor& dstate,
                      const Tensor& dprevious, const Tensor& dx, GradientSink& sink) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "router backward");
  ArenaScope scope(pass.arena);
  const int64_t tokens = x.rows();
  const Tensor dlogits = pass.arena.tensor(real_, {tokens, config_.classes()});
  const Tensor dgelu = pass.arena.tensor(real_, {tokens, config_.router});
  const Tensor dproduct = pass.arena.tensor(real_, {tokens, config_.router});

  ops::route_backward(ctx, dweight, saved.probability, saved.expert, dlogits);
  ops::accumulate_outer(ctx, real_, dlogits, saved.second_gelu, out_.gradient);
  sink.ready(out_);
  ops::linear(ctx, dlogits, packed_out_.transposed, dgelu);

  ops::gelu_backward(ctx, dgelu, saved.second, dproduct);
  ops::accumulate_column_sums(ctx, dproduct, second_bias_.gradient);
  sink.ready(second_bias_);
  ops::accumulate_outer(ctx, real_, dproduct, saved.first_gelu, second_.gradient);
  sink.ready(second_);
  ops::linear(ctx, dproduct, packed_second_.transposed, dgelu);

  ops::gelu_backward(ctx, dgelu, saved.first, dproduct);
  ops::accumulate_column_sums(ctx, dproduct, first_bias_.gradient);
  sink.ready(first_bias_);
  ops::accumulate_outer(ctx, real_, dproduct, saved.normed, first_.gradient);
  sink.ready(first_);
  ops::linear(ctx, dproduct, packed_first_.transposed, dgelu);

  ops::rms_norm_backward(ctx, dgelu, state, norm_.value, saved.inv_norm, dstate, norm_.gradient);
  sink.ready(norm_);
  if (state_scale_ != nullptr) {
    ops::depth_average_backward(ctx, dstate, state_scale_->value, previous, dprevious,
                                state_scale_->gradient);
    sink.ready(*state_scale_);
  }
  ops::accumulate_column_sums(ctx, dstate, down_bias_.gradient);
  sink.ready(down_bias_);
  const Tensor rounded = pass.arena.tensor(act_, {tokens, config_.router});
  ops::convert(ctx, dstate, rounded);
  ops::accumulate_outer(ctx, act_, rounded, x, down_.gradient);
  sink.ready(down_);
  ops::linear(ctx, rounded, packed_down_.transposed, dx);
}

}  // namespace athanor::model
