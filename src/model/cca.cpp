#include "model/cca.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/cache.h"
#include "ops/elementwise.h"
#include "ops/trace.h"

namespace athanor::model {
namespace {

const Parameter& weight_of(const Parameters& parameters, int64_t layer, const char* name) {
  return parameters.find(fmt::format("model.layers.{}.self_attn.{}", layer, name));
}

}  // namespace

Cca::Cca(const Parameters& parameters, int64_t layer, Arena& weights, bool training,
         const ops::RopeTable& rope)
    : config_(parameters.config()),
      layer_(layer),
      real_(ops::real_dtype(parameters.precision())),
      act_(ops::act_dtype(parameters.precision())),
      rope_(rope),
      query_(weight_of(parameters, layer, "qkv_proj.q_proj.weight")),
      key_(weight_of(parameters, layer, "qkv_proj.k_proj.weight")),
      value_current_(weight_of(parameters, layer, "qkv_proj.v_proj_current.weight")),
      value_delayed_(weight_of(parameters, layer, "qkv_proj.v_proj_delayed.weight")),
      depthwise_(weight_of(parameters, layer, "qkv_proj.conv_qk_depthwise.weight")),
      depthwise_bias_(weight_of(parameters, layer, "qkv_proj.conv_qk_depthwise.bias")),
      grouped_(weight_of(parameters, layer, "qkv_proj.conv_qk_grouped.weight")),
      grouped_bias_(weight_of(parameters, layer, "qkv_proj.conv_qk_grouped.bias")),
      temperature_(weight_of(parameters, layer, "qk_norm.temp")),
      output_(weight_of(parameters, layer, "o_proj.weight")) {
  const ops::Heads heads = config_.heads;
  shape_.heads = heads;
  shape_.window = config_.layer_kinds[layer] == LayerKind::kSliding ? config_.sliding_window : 0;
  shape_.scale = 1.0 / std::sqrt(static_cast<double>(heads.size));
  const int64_t joined_rows = heads.channels() + 2 * config_.value_half();
  packed_qkv_ = allocate_packed(weights, act_, joined_rows, config_.hidden, training);
  packed_output_ =
      allocate_packed(weights, act_, config_.hidden, heads.query * heads.size, training);
  packed_grouped_ =
      allocate_packed_stack(weights, real_, heads.total(), heads.size, 2 * heads.size, training);
}

void Cca::refresh(ops::Context& ctx) {
  pack(ctx, joined(query_.value), packed_qkv_);
  pack(ctx, output_.value, packed_output_);
  ops::pack_convolution(ctx, grouped_.value, config_.heads, packed_grouped_.forward,
                        packed_grouped_.transposed);
}

Tensor Cca::joined(const Tensor& first) const {
  require(key_.offset == query_.offset + query_.spec.numel() &&
              value_current_.offset == key_.offset + key_.spec.numel() &&
              value_delayed_.offset == value_current_.offset + value_current_.spec.numel(),
          "the q, k and v projections are no neighbours in the flat space");
  return {first.data(), first.dtype(), {packed_qkv_.forward.n, packed_qkv_.forward.k}};
}

ops::ConvolutionWeights Cca::convolution() const {
  const int64_t channels = config_.heads.channels();
  return {depthwise_.value.reshaped({channels, 2}), depthwise_bias_.value, grouped_bias_.value,
          packed_grouped_.forward, packed_grouped_.transposed};
}

CcaActivations Cca::allocate(Arena& arena, int64_t tokens) const {
  const ops::Heads heads = config_.heads;
  const int64_t channels = heads.channels();
  CcaActivations a;
  a.qkv = arena.tensor(real_, {tokens, channels + 2 * config_.value_half()});
  a.z = arena.tensor(real_, {tokens, channels});
  a.inv_norm = arena.tensor(real_, {tokens, heads.total()});
  a.q = arena.tensor(act_, {tokens, heads.query * heads.size});
  a.k = arena.tensor(act_, {tokens, heads.key * heads.size});
  a.v = arena.tensor(act_, {tokens, heads.key * heads.size});
  a.attended = arena.tensor(act_, {tokens, heads.query * heads.size});
  a.lse = arena.tensor(real_, {tokens, heads.query});
  return a;
}

// [c ‖ v1 ‖ v2] = W_qkv x                               c = [q0 ‖ k0]
// y1[t] = w0[·,0] c[t−1] + w0[·,1] c[t] + b0            two zero columns (or the history) left of a segment, once
// y2[t] = Σ_τ w1[·,·,τ] y1[t−1+τ] + b1                  one group a head; fp32 in bf16 mode (zaya1.md §4.1)
// z = y2 + qk_mean(c)
// q_h = rope(√d z_h/‖z_h‖)                              k_g = rope(√d z_g/‖z_g‖ · T_g)
// v[t] = [v1[t] ‖ v2[t−1]]
// out = W_o attention(q, k, v)                          causal, scale 1/√d, within a sliding layer's window
void Cca::forward(Pass& pass, const Tensor& x, const CcaActivations& saved, const Tensor& out) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "attention");
  const ops::Heads heads = config_.heads;
  const int64_t channels = heads.channels(), half = config_.value_half();
  ops::linear(ctx, x, packed_qkv_.forward, saved.qkv);
  const Tensor c = saved.qkv.columns(0, channels);
  {
    ArenaScope scope(pass.arena);
    ops::cca_convolution(ctx, c, convolution_history(pass), pass.begins, heads, convolution(),
                         saved.z);
    ops::qk_mean(ctx, c, heads, saved.z);
    ops::value_delay(ctx, saved.qkv.columns(channels, half),
                     saved.qkv.columns(channels + half, half), value_history(pass), pass.begins,
                     saved.v);
  }
  observe_heads(pass, layer_, "cca_query", saved.z, 0, heads.query, heads.size);
  observe_heads(pass, layer_, "cca_key", saved.z, heads.query * heads.size, heads.key, heads.size);
  observe_heads(pass, layer_, "cca_value", saved.v, 0, heads.key, heads.size);
  ops::qk_norm_rope(ctx, saved.z, heads, temperature_.value, rope_, pass.positions, saved.q,
                    saved.k, saved.inv_norm);
  attend(pass, saved);
  ops::linear(ctx, saved.attended, packed_output_.forward, out);
  observe(pass, layer_, "attn_output", out);
}

// A fresh segment attends to its own rows; a continued one to its cache, which first receives the
// new rows.
void Cca::attend(Pass& pass, const CcaActivations& saved) {
  auto& segments = pass.attention_segments;
  segments.clear();
  for (int64_t s = 0; s < pass.segments(); ++s) {
    const int64_t begin = pass.begins[s], count = pass.begins[s + 1] - begin;
    const Tensor k = saved.k.slice_rows(begin, count);
    const Tensor v = saved.v.slice_rows(begin, count);
    if (!pass.decoding()) {
      segments.push_back({begin, count, k.data(), v.data(), count});
      continue;
    }
    const LayerState& state = pass.states[s]->layers[layer_];
    ops::convert(pass.ctx, k, state.keys.slice_rows(state.count, count));
    ops::convert(pass.ctx, v, state.values.slice_rows(state.count, count));
    segments.push_back({begin, count, state.keys.data(), state.values.data(), state.count + count});
  }
  ops::attention(pass.ctx, saved.q, segments, shape_, saved.attended, saved.lse);
  if (pass.decoding()) advance(pass, saved);
}

// The last two columns of c left of each segment, real [S, 2, C]; empty when all segments are
// fresh.
Tensor Cca::convolution_history(Pass& pass) const {
  if (!pass.decoding()) return {};
  const Tensor history = pass.arena.tensor(real_, {pass.segments(), 2, config_.heads.channels()});
  for (int64_t s = 0; s < pass.segments(); ++s) {
    ops::convert(pass.ctx, pass.states[s]->layers[layer_].convolution,
                 history.slice_rows(2 * s, 2));
  }
  return history;
}

// The delayed projection of the token left of each segment, real [S, value_half]; empty when all
// are fresh.
Tensor Cca::value_history(Pass& pass) const {
  if (!pass.decoding()) return {};
  const Tensor history = pass.arena.tensor(real_, {pass.segments(), config_.value_half()});
  for (int64_t s = 0; s < pass.segments(); ++s) {
    ops::convert(pass.ctx, pass.states[s]->layers[layer_].delayed_value, history.slice_rows(s, 1));
  }
  return history;
}

// Leaves each sequence as its next token needs it: the last two columns of c, the last delayed
// value, and in a sliding layer the window − 1 newest keys.
void Cca::advance(Pass& pass, const CcaActivations& saved) const {
  if (pass.planning()) return;
  ops::Context& ctx = pass.ctx;
  const int64_t channels = config_.heads.channels(), half = config_.value_half();
  for (int64_t s = 0; s < pass.segments(); ++s) {
    LayerState& state = pass.states[s]->layers[layer_];
    const int64_t end = pass.begins[s + 1], count = end - pass.begins[s];
    const Tensor c = saved.qkv.columns(0, channels);
    if (count == 1) {
      ops::convert(ctx, state.convolution.slice_rows(1, 1), state.convolution.slice_rows(0, 1));
      ops::convert(ctx, c.slice_rows(end - 1, 1), state.convolution.slice_rows(1, 1));
    } else {
      ops::convert(ctx, c.slice_rows(end - 2, 2), state.convolution);
    }
    ops::convert(ctx, saved.qkv.columns(channels + half, half).slice_rows(end - 1, 1),
                 state.delayed_value);
    state.count += count;
    if (shape_.window > 0 && state.count >= shape_.window) {
      const int64_t keep = shape_.window - 1;
      ops::drop_rows(ctx, state.keys, state.count - keep, keep);
      ops::drop_rows(ctx, state.values, state.count - keep, keep);
      state.count = keep;
    }
  }
}

// The forward's lines from last to first; c has two uses, the convolution and the mean.
void Cca::backward(Pass& pass, const Tensor& dout, const Tensor& x, const CcaActivations& saved,
                   const Tensor& dx, GradientSink& sink) {
  ops::Context& ctx = pass.ctx;
  const ops::PartScope part(ctx, "attention backward");
  ArenaScope scope(pass.arena);
  const ops::Heads heads = config_.heads;
  const int64_t tokens = x.rows(), channels = heads.channels(), half = config_.value_half();
  const auto activation = [&](int64_t cols) { return pass.arena.tensor(act_, {tokens, cols}); };
  const auto gradient = [&](int64_t cols) { return pass.arena.tensor(real_, {tokens, cols}); };

  ops::accumulate_outer(ctx, act_, dout, saved.attended, output_.gradient);
  sink.ready(output_);
  const Tensor dattended = activation(heads.query * heads.size);
  ops::linear(ctx, dout, packed_output_.transposed, dattended);

  const Tensor dq = gradient(heads.query * heads.size);
  const Tensor dk = gradient(heads.key * heads.size);
  const Tensor dv = gradient(heads.key * heads.size);
  ops::attention_backward(ctx, dattended, saved.q, saved.k, saved.v, saved.attended, saved.lse,
                          pass.begins, shape_, dq, dk, dv);

  const Tensor dqkv = activation(channels + 2 * half);
  ops::value_delay_backward(ctx, dv, pass.begins, dqkv.columns(channels, half),
                            dqkv.columns(channels + half, half));
  const Tensor dz = gradient(channels);
  ops::qk_norm_rope_backward(ctx, dq, dk, saved.z, heads, temperature_.value, rope_, pass.positions,
                             saved.inv_norm, dz, temperature_.gradient);
  sink.ready(temperature_);

  const Tensor dc = gradient(channels);
  ops::cca_convolution_backward(
      ctx, dz, saved.qkv.columns(0, channels), pass.begins, heads, convolution(), dc,
      {depthwise_.gradient.reshaped({channels, 2}), depthwise_bias_.gradient, grouped_.gradient,
       grouped_bias_.gradient});
  for (const Parameter* p : {&grouped_bias_, &grouped_, &depthwise_bias_, &depthwise_}) {
    sink.ready(*p);
  }
  ops::qk_mean_backward(ctx, dz, heads, dc);
  ops::convert(ctx, dc, dqkv.columns(0, channels));

  ops::accumulate_outer(ctx, act_, dqkv, x, joined(query_.gradient));
  for (const Parameter* p : {&value_delayed_, &value_current_, &key_, &query_}) sink.ready(*p);
  ops::linear(ctx, dqkv, packed_qkv_.transposed, dx);
}

}  // namespace athanor::model
