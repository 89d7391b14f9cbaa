#include "model/experts.h"

#include <fmt/format.h>

#include "ops/routing.h"
#include "ops/trace.h"

namespace athanor::model {

Experts::Experts(const Parameters& parameters, int64_t layer, Arena& weights, bool training)
    : config_(parameters.config()),
      layer_(layer),
      real_(ops::real_dtype(parameters.precision())),
      act_(ops::act_dtype(parameters.precision())),
      gate_up_(parameters.find(fmt::format("model.layers.{}.mlp.experts.gate_up_proj", layer))),
      down_(parameters.find(fmt::format("model.layers.{}.mlp.experts.down_proj", layer))) {
  packed_gate_up_ = allocate_packed_stack(weights, act_, config_.experts, 2 * config_.expert_inner,
                                          config_.hidden, training);
  packed_down_ = allocate_packed_stack(weights, act_, config_.experts, config_.hidden,
                                       config_.expert_inner, training);
}

void Experts::refresh(ops::Context& ctx) {
  pack(ctx, gate_up_.value, packed_gate_up_);
  pack(ctx, down_.value, packed_down_);
}

ExpertsActivations Experts::allocate(Arena& arena, int64_t tokens,
                                     std::span<int64_t> offsets) const {
  ExpertsActivations a;
  a.order = arena.tensor(DType::kI32, {tokens});
  a.offsets = offsets;
  a.x = arena.tensor(act_, {tokens, config_.hidden});
  a.gate_up = arena.tensor(act_, {tokens, 2 * config_.expert_inner});
  a.inner = arena.tensor(act_, {tokens, config_.expert_inner});
  a.y = arena.tensor(act_, {tokens, config_.hidden});
  return a;
}

// [g ‖ u] = W_gate_up,e x,  f_e(x) = W_down,e (silu(g) ⊙ u),  out_t = p_e · f_e(x_t)
void Experts::forward(Pass& pass, const Tensor& x, const Tensor& expert, const Tensor& weight,
                      const ExpertsActivations& saved, const Tensor& out) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "experts");
  ops::sort_by_expert(ctx, expert, config_.experts, saved.order, saved.offsets);
  ops::gather_rows(ctx, x, saved.order, saved.count(), saved.x);
  ops::grouped_linear(ctx, saved.x, saved.offsets, packed_gate_up_.forward, saved.gate_up);
  ops::silu_product(ctx, saved.gate_up, saved.count(), saved.inner);
  ops::grouped_linear(ctx, saved.inner, saved.offsets, packed_down_.forward, saved.y);
  ops::combine(ctx, saved.y, saved.order, saved.count(), weight, out);
  observe(pass, layer_, "moe_output", out);
}

// df = p_e · dout, dp_e = dout · f_e(x)
void Experts::backward(Pass& pass, const Tensor& dout, const Tensor& weight,
                       const ExpertsActivations& saved, const Tensor& dweight, const Tensor& dx,
                       GradientSink& sink) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "experts backward");
  ArenaScope scope(pass.arena);
  const int64_t tokens = dout.rows();
  const Tensor dy = pass.arena.tensor(act_, {tokens, config_.hidden});
  ops::combine_backward(ctx, dout, saved.y, saved.order, saved.count(), weight, dy, dweight);

  ops::grouped_accumulate_outer(ctx, act_, dy, saved.inner, saved.offsets, down_.gradient);
  sink.ready(down_);
  const Tensor dinner = pass.arena.tensor(act_, {tokens, config_.expert_inner});
  ops::grouped_linear(ctx, dy, saved.offsets, packed_down_.transposed, dinner);

  const Tensor dgate_up = pass.arena.tensor(act_, {tokens, 2 * config_.expert_inner});
  ops::silu_product_backward(ctx, dinner, saved.gate_up, saved.count(), dgate_up);
  ops::grouped_accumulate_outer(ctx, act_, dgate_up, saved.x, saved.offsets, gate_up_.gradient);
  sink.ready(gate_up_);
  ops::grouped_linear(ctx, dgate_up, saved.offsets, packed_gate_up_.transposed, dx);
}

}  // namespace athanor::model
