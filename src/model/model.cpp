#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/model_impl.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/trace.h"

namespace athanor::model {

Model::Impl::Impl(Parameters& p, Arena& arena, ModelOptions o)
    : parameters(p),
      config(p.config()),
      weights(arena),
      options(std::move(o)),
      real(ops::real_dtype(p.precision())),
      act(ops::act_dtype(p.precision())),
      theta(p.config().theta),
      embedding(p.find("model.embed_tokens.weight")),
      final_norm(p.find("model.norm.weight")),
      input(p, "model.input_", /*with_residual=*/false) {
  require(
      options.recompute.empty() || static_cast<int64_t>(options.recompute.size()) == config.layers,
      "recompute needs one flag a layer");
  build_rope();
  if (std::ranges::count(config.layer_kinds, LayerKind::kSliding) > 0) {
    rope_sliding = ops::make_rope_table(weights, real, config.theta_sliding, config.rotary(),
                                        options.rope_positions);
  }
  packed_head = allocate_packed(weights, act, config.vocab, config.hidden, options.training);
  blocks.reserve(config.layers);
  for (int64_t l = 0; l < config.layers; ++l) {
    const bool slides = config.layer_kinds[l] == LayerKind::kSliding;
    blocks.emplace_back(parameters, l, weights, options.training, slides ? rope_sliding : rope_full,
                        options.balanced_routing);
  }
  offsets.resize(config.layers * config.classes());
  residual.resize(config.layers + 1);
  state.resize(config.layers);
  saved.resize(config.layers);
  marks.resize(config.layers);
}

// The table of the full layers is built again where it lies: the arena is wound back to it and then
// forward again.
void Model::Impl::build_rope() {
  const size_t top = weights.mark();
  if (rope_full.cos.empty()) rope_mark = top;
  weights.release(rope_mark);
  rope_full = ops::make_rope_table(weights, real, theta, config.rotary(), options.rope_positions);
  weights.release(std::max(top, weights.mark()));
}

void Model::Impl::refresh(ops::Context& ctx) {
  if (packed_version == parameters.version()) return;
  const ops::PartScope part(ctx, "packing");
  pack(ctx, embedding.value, packed_head);
  for (Block& block : blocks) block.refresh(ctx);
  if (!ctx.planning()) packed_version = parameters.version();
}

namespace {

/// Refuses, before any work, what would read outside the tables. A target may be negative: none.
void check_ids(const Tensor& ids, int64_t vocab, const char* what, bool may_be_negative) {
  const int32_t* values = ids.as<int32_t>();
  for (int64_t t = 0; t < ids.numel(); ++t) {
    if (values[t] >= vocab || (values[t] < 0 && !may_be_negative)) {
      throw data_error(fmt::format("{} {} at place {} of the batch is outside the vocabulary of {}",
                                   what, values[t], t, vocab));
    }
  }
}

void check_targets(const ops::Context& ctx, const Batch& batch, int64_t vocab) {
  if (batch.targets.empty()) return;
  require(batch.targets.numel() == batch.tokens(), "one target a token");
  if (!ctx.planning()) check_ids(batch.targets, vocab, "target", /*may_be_negative=*/true);
}

void check_segments(std::span<const int64_t> begins, int64_t tokens) {
  require(begins.size() >= 2 && begins.front() == 0 && begins.back() == tokens,
          "segments must run from 0 to the number of tokens");
  for (size_t s = 1; s < begins.size(); ++s) {
    require(begins[s] > begins[s - 1], "segments must not be empty");
  }
}

double sum_of(const Tensor& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    sum += t.dtype() == DType::kF64 ? t.as<double>()[i] : t.as<float>()[i];
  }
  return sum;
}

void add_loss(const Pass& pass, const Tensor& loss, const Tensor& targets, Statistics& statistics) {
  if (pass.planning()) return;
  statistics.loss_sum += sum_of(loss);
  const int32_t* values = targets.as<int32_t>();
  statistics.targets +=
      std::count_if(values, values + targets.numel(), [](int32_t t) { return t >= 0; });
}

}  // namespace

Pass Model::Impl::begin_pass(ops::Context& ctx, Arena& arena, const Tensor& ids,
                             std::span<const int64_t> begins,
                             std::span<SequenceState* const> states, const Observer* observer) {
  require(ctx.planning() == arena.planning(), "plan activations and scratch together");
  check_segments(begins, ids.numel());
  refresh(ctx);
  Pass pass{ctx,
            arena,
            begins,
            arena.tensor(DType::kI32, {ids.numel()}),
            states,
            observer,
            attention_segments};
  for (int64_t s = 0; s < pass.segments(); ++s) {
    const int64_t first = states.empty() ? 0 : states[s]->position;
    const int64_t count = begins[s + 1] - begins[s];
    if (first + count > options.rope_positions) {
      throw usage_error(
          fmt::format("a sequence of {} tokens is longer than the {} positions that "
                      "this model was set up for",
                      first + count, options.rope_positions));
    }
    if (ctx.planning()) continue;
    int32_t* positions = pass.positions.as<int32_t>() + begins[s];
    for (int64_t i = 0; i < count; ++i) positions[i] = static_cast<int32_t>(first + i);
  }
  if (!ctx.planning()) check_ids(ids, config.vocab, "token id", /*may_be_negative=*/false);
  return pass;
}

// r = (Emb[id] + b_in) ⊙ s_in
void Model::Impl::embed(Pass& pass, const Tensor& ids, const Tensor& r) {
  const ops::PartScope part(pass.ctx, "embedding");
  ArenaScope scope(pass.arena);
  const Tensor rows = pass.arena.tensor(real, {ids.numel(), config.hidden});
  ops::embedding(pass.ctx, embedding.value, ids, rows);
  input.forward(pass, rows, {}, r);
  observe(pass, -1, "residual.input", r);
}

// The embedding's rows are looked up again rather than kept.
void Model::Impl::embed_backward(Pass& pass, const Tensor& ids, const Tensor& dresidual,
                                 GradientSink& sink) {
  const ops::PartScope part(pass.ctx, "embedding backward");
  ArenaScope scope(pass.arena);
  const Tensor rows = pass.arena.tensor(real, {ids.numel(), config.hidden});
  const Tensor drows = pass.arena.tensor(real, {ids.numel(), config.hidden});
  ops::embedding(pass.ctx, embedding.value, ids, rows);
  input.backward(pass, rows, {}, drows, dresidual, sink);
  ops::embedding_backward(pass.ctx, drows, ids, embedding.gradient);
  sink.ready(embedding);
}

void Model::Impl::count_experts(const Pass& pass, int64_t l, Statistics& statistics) const {
  if (pass.planning()) return;
  const int64_t classes = config.classes(), experts = config.experts;
  statistics.expert_counts.resize(config.layers * classes);
  int64_t* counts = statistics.expert_counts.data() + l * classes;
  const int64_t* begin = offsets.data() + l * classes;
  for (int64_t e = 0; e < experts; ++e) counts[e] += begin[e + 1] - begin[e];
  counts[experts] += pass.begins.back() - begin[experts];
}

/// All layers in place on `r` [T, D]; nothing is kept.
void Model::Impl::blocks_forward(Pass& pass, const Tensor& r, Statistics* statistics) {
  ArenaScope scope(pass.arena);
  Tensor current = pass.arena.tensor(real, {r.rows(), config.router});
  Tensor previous = pass.arena.tensor(real, {r.rows(), config.router});
  for (int64_t l = 0; l < config.layers; ++l) {
    ArenaScope block(pass.arena);
    const BlockActivations activations = blocks[l].allocate(pass.arena, r.rows(), offsets_of(l));
    blocks[l].forward(pass, r, l == 0 ? Tensor{} : previous, activations, r, current);
    if (statistics != nullptr) count_experts(pass, l, *statistics);
    std::swap(current, previous);
  }
}

/// Layer l of a training pass: its output and state stay, and unless it recomputes its activations
/// do.
void Model::Impl::block_forward_kept(Pass& pass, int64_t l, Statistics& statistics) {
  const int64_t tokens = residual[l].rows();
  marks[l] = pass.arena.mark();
  residual[l + 1] = pass.arena.tensor(real, {tokens, config.hidden});
  state[l] = pass.arena.tensor(real, {tokens, config.router});
  const size_t kept = pass.arena.mark();
  saved[l] = blocks[l].allocate(pass.arena, tokens, offsets_of(l));
  blocks[l].forward(pass, residual[l], state_before(l), saved[l], residual[l + 1], state[l]);
  if (recomputes(l)) pass.arena.release(kept);
  count_experts(pass, l, statistics);
}

/// Its backward, after which the layer's memory is free. A recomputing layer first runs its forward
/// again: the same operations on the same inputs, so the same bits.
void Model::Impl::block_backward(Pass& pass, int64_t l, const Tensor& dresidual,
                                 GradientSink& sink) {
  if (recomputes(l)) {
    saved[l] = blocks[l].allocate(pass.arena, residual[l].rows(), offsets_of(l));
    blocks[l].forward(pass, residual[l], state_before(l), saved[l], residual[l + 1], state[l]);
  }
  blocks[l].backward(pass, residual[l], state_before(l), saved[l], state[l], dresidual, dstate,
                     l == 0 ? Tensor{} : dprevious, sink);
  std::swap(dstate, dprevious);
  pass.arena.release(marks[l]);
}

// h = RMSNorm(r; w_final), loss_t = −log softmax(h_t · Embᵀ)[target_t]
void Model::Impl::head_backward(Pass& pass, const Batch& batch, double gradient_scale,
                                const Tensor& dresidual, GradientSink& sink,
                                Statistics& statistics) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "head");
  ArenaScope scope(pass.arena);
  const int64_t tokens = batch.tokens();
  ops::fill(ctx, dresidual, 0);
  const Tensor h = pass.arena.tensor(act, {tokens, config.hidden});
  const Tensor inv_norm = pass.arena.tensor(real, {tokens});
  const Tensor& r = residual[config.layers];
  ops::rms_norm(ctx, r, final_norm.value, config.rms_norm_eps, h, inv_norm);
  observe(pass, -1, "final_norm", h);
  if (!batch.targets.empty()) {
    const Tensor loss = pass.arena.tensor(real, {tokens});
    const Tensor dh = pass.arena.tensor(real, {tokens, config.hidden});
    ops::vocabulary_loss(ctx, h, {&packed_head.forward, &packed_head.transposed}, batch.targets,
                         gradient_scale, loss, dh, embedding.gradient);
    add_loss(pass, loss, batch.targets, statistics);
    ops::rms_norm_backward(ctx, dh, r, final_norm.value, inv_norm, dresidual, final_norm.gradient);
  }
  sink.ready(final_norm);
}

Model::Model(Parameters& parameters, Arena& weights, ModelOptions options)
    : impl_(std::make_unique<Impl>(parameters, weights, std::move(options))) {}

Model::~Model() = default;

void Model::refresh(ops::Context& ctx) { impl_->refresh(ctx); }

void Model::set_theta(double theta) {
  if (theta == impl_->theta) return;
  impl_->theta = theta;
  impl_->build_rope();
}

const ModelConfig& Model::config() const { return impl_->config; }

Parameters& Model::parameters() { return impl_->parameters; }

void Model::forward_backward(ops::Context& ctx, Arena& activations, const Batch& batch,
                             double gradient_scale, GradientSink& sink, Statistics& statistics,
                             const Observer& observer) {
  Impl& m = *impl_;
  require(m.options.training, "this model was set up without what a backward needs");
  require(!m.embedding.gradient.empty(), "a backward needs gradients to accumulate into");
  ArenaScope scope(activations);
  Pass pass =
      m.begin_pass(ctx, activations, batch.ids, batch.begins, {}, observer ? &observer : nullptr);
  check_targets(ctx, batch, m.config.vocab);
  const int64_t tokens = batch.tokens(), layers = m.config.layers;
  const Tensor dresidual = activations.tensor(m.real, {tokens, m.config.hidden});
  m.dstate = activations.tensor(m.real, {tokens, m.config.router});
  m.dprevious = activations.tensor(m.real, {tokens, m.config.router});

  m.residual[0] = activations.tensor(m.real, {tokens, m.config.hidden});
  m.embed(pass, batch.ids, m.residual[0]);
  for (int64_t l = 0; l < layers; ++l) m.block_forward_kept(pass, l, statistics);
  m.head_backward(pass, batch, gradient_scale, dresidual, sink, statistics);

  pass.observer = nullptr;
  {
    const ops::PartScope part(ctx, "router backward");
    ops::fill(ctx, m.dstate, 0);  // no layer after the last adds to its state's gradient
  }
  for (int64_t l = layers - 1; l >= 0; --l) m.block_backward(pass, l, dresidual, sink);
  m.embed_backward(pass, batch.ids, dresidual, sink);
}

void Model::forward(ops::Context& ctx, Arena& activations, const Batch& batch,
                    const Tensor& token_loss, Statistics& statistics, bool want_logits,
                    const Observer& observer) {
  Impl& m = *impl_;
  require(token_loss.empty() || !batch.targets.empty(), "token losses need targets");
  ArenaScope scope(activations);
  Pass pass =
      m.begin_pass(ctx, activations, batch.ids, batch.begins, {}, observer ? &observer : nullptr);
  check_targets(ctx, batch, m.config.vocab);
  const int64_t tokens = batch.tokens();
  const Tensor r = activations.tensor(m.real, {tokens, m.config.hidden});
  m.embed(pass, batch.ids, r);
  m.blocks_forward(pass, r, &statistics);

  const ops::PartScope part(ctx, "head");
  const Tensor h = activations.tensor(m.act, {tokens, m.config.hidden});
  const Tensor inv_norm = activations.tensor(m.real, {tokens});
  ops::rms_norm(ctx, r, m.final_norm.value, m.config.rms_norm_eps, h, inv_norm);
  observe(pass, -1, "final_norm", h);
  if (!batch.targets.empty()) {
    const Tensor loss = token_loss.empty() ? activations.tensor(m.real, {tokens}) : token_loss;
    ops::vocabulary_loss(ctx, h, {&m.packed_head.forward, nullptr}, batch.targets, 0, loss, {}, {});
    add_loss(pass, loss, batch.targets, statistics);
  }
  if (want_logits) {
    const Tensor logits = activations.tensor(m.real, {tokens, m.config.vocab});
    ops::linear(ctx, h, m.packed_head.forward, logits);
    observe(pass, -1, "logits", logits);
  }
}

}  // namespace athanor::model
