#include "model/block.h"

#include <fmt/format.h>

#include "ops/norm.h"
#include "ops/routing.h"
#include "ops/trace.h"

namespace athanor::model {

Block::Block(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
             const ops::RopeTable& rope, bool balanced_routing)
    : config_(parameters.config()),
      layer_(layer),
      real_(ops::real_dtype(parameters.precision())),
      act_(ops::act_dtype(parameters.precision())),
      attention_norm_(
          parameters.find(fmt::format("model.layers.{}.input_layernorm.weight", layer))),
      experts_norm_(
          parameters.find(fmt::format("model.layers.{}.post_attention_layernorm.weight", layer))),
      cca_(parameters, layer, weights, training, rope),
      attention_residual_(parameters,
                          fmt::format("model.layers.{}.post_attention_residual_scale.", layer)),
      router_(parameters, layer, weights, training, balanced_routing),
      experts_(parameters, layer, weights, training),
      experts_residual_(parameters,
                        fmt::format("model.layers.{}.post_mlp_residual_scale.", layer)) {}

void Block::refresh(ops::Context& ctx) {
  cca_.refresh(ctx);
  router_.refresh(ctx);
  experts_.refresh(ctx);
}

BlockActivations Block::allocate(Arena& arena, int64_t tokens, std::span<int64_t> offsets) const {
  const int64_t hidden = config_.hidden;
  BlockActivations a;
  a.attention_input = arena.tensor(act_, {tokens, hidden});
  a.attention_inv_norm = arena.tensor(real_, {tokens});
  a.cca = cca_.allocate(arena, tokens);
  a.attention_output = arena.tensor(real_, {tokens, hidden});
  a.middle = arena.tensor(real_, {tokens, hidden});
  a.experts_input = arena.tensor(act_, {tokens, hidden});
  a.experts_inv_norm = arena.tensor(real_, {tokens});
  a.router = router_.allocate(arena, tokens);
  a.experts = experts_.allocate(arena, tokens, offsets);
  a.experts_output = arena.tensor(real_, {tokens, hidden});
  return a;
}

// a = CCA(RMSNorm(r; w_attn)),          r_mid = (a + b_h) ⊙ s_h + (r + b_r) ⊙ s_r
// m, r̃ = MoE(RMSNorm(r_mid; w_mlp), r̃_prev),  r_out = (m + b_h') ⊙ s_h' + (r_mid + b_r') ⊙ s_r'
void Block::forward(Pass& pass, const Tensor& residual, const Tensor& previous,
                    const BlockActivations& saved, const Tensor& residual_out,
                    const Tensor& state) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "residual");
  ops::rms_norm(ctx, residual, attention_norm_.value, config_.rms_norm_eps, saved.attention_input,
                saved.attention_inv_norm);
  cca_.forward(pass, saved.attention_input, saved.cca, saved.attention_output);
  attention_residual_.forward(pass, saved.attention_output, residual, saved.middle);
  observe(pass, layer_, "residual_mid", saved.middle);

  ops::rms_norm(ctx, saved.middle, experts_norm_.value, config_.rms_norm_eps, saved.experts_input,
                saved.experts_inv_norm);
  router_.forward(pass, saved.experts_input, previous, saved.router, state);
  experts_.forward(pass, saved.experts_input, saved.router.expert, saved.router.weight,
                   saved.experts, saved.experts_output);
  experts_residual_.forward(pass, saved.experts_output, saved.middle, residual_out);
  observe(pass, layer_, "residual", residual_out);
}

// At each half the residual's gradient is the sum of two paths: through its scale, and through the
// norm and the branch.
void Block::backward(Pass& pass, const Tensor& residual, const Tensor& previous,
                     const BlockActivations& saved, const Tensor& state, const Tensor& dresidual,
                     const Tensor& dstate, const Tensor& dprevious, GradientSink& sink) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "residual backward");
  const int64_t tokens = residual.rows(), hidden = config_.hidden;
  {
    ArenaScope scope(pass.arena);
    const Tensor dinput = pass.arena.tensor(real_, {tokens, hidden});
    const Tensor dsorted = pass.arena.tensor(real_, {tokens, hidden});
    const Tensor dweight = pass.arena.tensor(real_, {tokens});
    {
      ArenaScope branch(pass.arena);
      const Tensor doutput = pass.arena.tensor(real_, {tokens, hidden});
      experts_residual_.backward(pass, saved.experts_output, saved.middle, doutput, dresidual,
                                 sink);
      experts_.backward(pass, doutput, saved.router.weight, saved.experts, dweight, dsorted, sink);
    }
    router_.backward(pass, dweight, saved.experts_input, previous, saved.router, state, dstate,
                     dprevious, dinput, sink);
    {
      const ops::PartScope experts(ctx, "experts backward");
      ops::scatter_add_rows(ctx, dsorted, saved.experts.order, saved.experts.count(), dinput);
    }
    ops::rms_norm_backward(ctx, dinput, saved.middle, experts_norm_.value, saved.experts_inv_norm,
                           dresidual, experts_norm_.gradient);
    sink.ready(experts_norm_);
  }
  ArenaScope scope(pass.arena);
  const Tensor doutput = pass.arena.tensor(act_, {tokens, hidden});
  attention_residual_.backward(pass, saved.attention_output, residual, doutput, dresidual, sink);
  const Tensor dinput = pass.arena.tensor(real_, {tokens, hidden});
  cca_.backward(pass, doutput, saved.attention_input, saved.cca, dinput, sink);
  ops::rms_norm_backward(ctx, dinput, residual, attention_norm_.value, saved.attention_inv_norm,
                         dresidual, attention_norm_.gradient);
  sink.ready(attention_norm_);
}

}  // namespace athanor::model
