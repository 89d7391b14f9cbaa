#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace athanor::model {
namespace {

void at_least_one(const char* key, int64_t value) {
  if (value < 1) throw usage_error(fmt::format("{} is {}, it must be at least 1", key, value));
}

/// Counts of elements, and of the FLOPs over them, must fit 64 bits.
bool countable(const ModelConfig& c) {
  const auto product = [](std::initializer_list<int64_t> factors) {
    double n = 1;
    for (const int64_t f : factors) n *= static_cast<double>(f);
    return n;
  };
  constexpr double kMost = 1e17;
  const double largest = std::max(
      {product({c.vocab, c.hidden}), product({c.experts, 2, c.expert_inner, c.hidden}),
       product({c.heads.total(), c.heads.size, c.hidden}),
       product({c.heads.total(), c.heads.size, c.heads.size, 2}), product({c.router, c.hidden}),
       product({c.router, c.router}), product({c.classes(), c.router})});
  return largest * static_cast<double>(c.layers) <= kMost;
}

ParameterSpec vector_of(std::string name, int64_t n) {
  return {std::move(name), {n}, ParameterKind::kVector};
}

ParameterSpec matrix_of(std::string name, int64_t rows, int64_t cols) {
  return {std::move(name), {rows, cols}, ParameterKind::kMatrix};
}

void append_residual_scale(std::vector<ParameterSpec>& specs, const std::string& prefix,
                           int64_t hidden) {
  for (const char* part :
       {"hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias"}) {
    specs.push_back(vector_of(prefix + part, hidden));
  }
}

void append_attention(std::vector<ParameterSpec>& specs, const std::string& prefix,
                      const ModelConfig& c) {
  const std::string qkv = prefix + "qkv_proj.";
  const int64_t channels = c.heads.channels();
  // These four stay neighbours: the model multiplies by them as one matrix.
  specs.push_back(matrix_of(qkv + "q_proj.weight", c.heads.query * c.heads.size, c.hidden));
  specs.push_back(matrix_of(qkv + "k_proj.weight", c.heads.key * c.heads.size, c.hidden));
  specs.push_back(matrix_of(qkv + "v_proj_current.weight", c.value_half(), c.hidden));
  specs.push_back(matrix_of(qkv + "v_proj_delayed.weight", c.value_half(), c.hidden));
  specs.push_back(
      {qkv + "conv_qk_depthwise.weight", {channels, 1, 2}, ParameterKind::kConvolution});
  specs.push_back(vector_of(qkv + "conv_qk_depthwise.bias", channels));
  specs.push_back(
      {qkv + "conv_qk_grouped.weight", {channels, c.heads.size, 2}, ParameterKind::kConvolution});
  specs.push_back(vector_of(qkv + "conv_qk_grouped.bias", channels));
  specs.push_back(vector_of(prefix + "qk_norm.temp", c.heads.key));
  specs.push_back(matrix_of(prefix + "o_proj.weight", c.hidden, c.heads.query * c.heads.size));
}

void append_router(std::vector<ParameterSpec>& specs, const std::string& prefix,
                   const ModelConfig& c, bool first_layer) {
  specs.push_back(matrix_of(prefix + "down_proj.weight", c.router, c.hidden));
  specs.push_back(vector_of(prefix + "down_proj.bias", c.router));
  if (!first_layer) specs.push_back(vector_of(prefix + "router_states_scale", c.router));
  const std::string mlp = prefix + "router_mlp.";
  specs.push_back(vector_of(mlp + "norm.weight", c.router));
  specs.push_back(matrix_of(mlp + "fc1.weight", c.router, c.router));
  specs.push_back(vector_of(mlp + "fc1.bias", c.router));
  specs.push_back(matrix_of(mlp + "fc2.weight", c.router, c.router));
  specs.push_back(vector_of(mlp + "fc2.bias", c.router));
  specs.push_back(matrix_of(mlp + "out_proj.weight", c.classes(), c.router));
}

void append_experts(std::vector<ParameterSpec>& specs, const std::string& prefix,
                    const ModelConfig& c) {
  specs.push_back({prefix + "gate_up_proj",
                   {c.experts, 2 * c.expert_inner, c.hidden},
                   ParameterKind::kExpertMatrices});
  specs.push_back({prefix + "down_proj",
                   {c.experts, c.hidden, c.expert_inner},
                   ParameterKind::kExpertMatrices});
}

}  // namespace

std::vector<int64_t> ModelConfig::stop_tokens() const {
  if (!generation_eos.empty()) return generation_eos;
  std::vector<int64_t> tokens = further_eos;
  if (eos >= 0) tokens.insert(tokens.begin(), eos);
  return tokens;
}

int64_t ModelConfig::rotary() const {
  return static_cast<int64_t>(static_cast<double>(heads.size) * partial_rotary);
}

void ModelConfig::validate(const GeometryKeys& keys) const {
  at_least_one(keys.layers, layers);
  at_least_one(keys.hidden, hidden);
  at_least_one(keys.query_heads, heads.query);
  at_least_one(keys.key_heads, heads.key);
  at_least_one(keys.head_size, heads.size);
  at_least_one(keys.experts, experts);
  at_least_one(keys.expert_inner, expert_inner);
  at_least_one(keys.router, router);
  at_least_one(keys.vocab, vocab);
  if (!countable(*this)) {
    throw usage_error(
        fmt::format("{}, {} and the other sizes describe a model that no machine can hold",
                    keys.hidden, keys.vocab));
  }
  if (heads.query % heads.key != 0) {
    throw usage_error(fmt::format("{} is {}, which is no multiple of {}, {}", keys.query_heads,
                                  heads.query, keys.key_heads, heads.key));
  }
  if (heads.key * heads.size % 2 != 0) {
    throw usage_error(
        fmt::format("{} × {}, the width of the values, is {} × {}, which is odd: half of it is "
                    "delayed by a token, so make it even",
                    keys.key_heads, keys.head_size, heads.key, heads.size));
  }
  if (!(partial_rotary >= 0 && partial_rotary <= 1)) {
    throw usage_error(
        fmt::format("{} is {}, it must lie in [0, 1]", keys.partial_rotary, partial_rotary));
  }
  if (rotary() % 2 != 0) {
    throw usage_error(fmt::format("{} {} of {} {} rotates {} dimensions, which must be even",
                                  keys.partial_rotary, partial_rotary, keys.head_size, heads.size,
                                  rotary()));
  }
  if (!(rms_norm_eps > 0) || !std::isfinite(rms_norm_eps)) {
    throw usage_error(
        fmt::format("{} is {}, it must be positive", keys.rms_norm_eps, rms_norm_eps));
  }
  if (static_cast<int64_t>(layer_kinds.size()) != layers) {
    throw usage_error(fmt::format("{} names {} of them, {} is {}", keys.layer_kinds,
                                  layer_kinds.size(), keys.layers, layers));
  }
  const bool slides = std::ranges::count(layer_kinds, LayerKind::kSliding) > 0;
  if (slides && sliding_window < 1) {
    throw usage_error(fmt::format("{} is {}; a sliding layer needs at least 1", keys.sliding_window,
                                  sliding_window));
  }
  for (const auto& [key, base] :
       {std::pair{keys.theta, theta}, {keys.theta_sliding, theta_sliding}}) {
    if (!(base > 0) || !std::isfinite(base)) {
      throw usage_error(fmt::format("{} is {}, it must be positive", key, base));
    }
  }
  if (!(initializer_range >= 0) || !std::isfinite(initializer_range)) {
    throw usage_error(fmt::format("{} is {}, it must not be negative", keys.initializer_range,
                                  initializer_range));
  }
}

int64_t ParameterSpec::numel() const { return numel_of(shape); }

std::vector<ParameterSpec> parameter_specs(const ModelConfig& c) {
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", {c.vocab, c.hidden}, ParameterKind::kEmbedding});
  specs.push_back(vector_of("model.input_hidden_states_scale", c.hidden));
  specs.push_back(vector_of("model.input_hidden_states_bias", c.hidden));
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string layer = fmt::format("model.layers.{}.", l);
    specs.push_back(vector_of(layer + "input_layernorm.weight", c.hidden));
    append_attention(specs, layer + "self_attn.", c);
    append_residual_scale(specs, layer + "post_attention_residual_scale.", c.hidden);
    specs.push_back(vector_of(layer + "post_attention_layernorm.weight", c.hidden));
    append_router(specs, layer + "mlp.gate.", c, l == 0);
    append_experts(specs, layer + "mlp.experts.", c);
    append_residual_scale(specs, layer + "post_mlp_residual_scale.", c.hidden);
  }
  specs.push_back(vector_of("model.norm.weight", c.hidden));
  return specs;
}

std::vector<ParameterSpec> buffer_specs(const ModelConfig& c) {
  std::vector<ParameterSpec> specs;
  for (int64_t l = 0; l < c.layers; ++l) {
    specs.push_back(
        vector_of(fmt::format("model.layers.{}.mlp.gate.balancing_biases", l), c.classes()));
  }
  return specs;
}

ParameterCounts count_parameters(const ModelConfig& config) {
  ParameterCounts counts;
  const auto specs = parameter_specs(config);
  for (const ParameterSpec& spec : specs) {
    const int64_t n = spec.numel();
    counts.total += n;
    switch (spec.kind) {
      case ParameterKind::kEmbedding:
        counts.embedding += n;
        counts.adamw += n;
        break;
      case ParameterKind::kExpertMatrices:
        counts.experts += n;
        counts.muon += n;
        break;
      case ParameterKind::kMatrix:
        counts.muon += n;
        break;
      case ParameterKind::kConvolution:
      case ParameterKind::kVector:
        counts.adamw += n;
        break;
    }
  }
  const auto buffers = buffer_specs(config);
  for (const ParameterSpec& spec : buffers) counts.balancing_biases += spec.numel();
  counts.non_embedding = counts.total - counts.embedding;
  counts.active_non_embedding =
      counts.non_embedding - counts.experts / config.experts * (config.experts - 1);
  counts.active_with_head = counts.active_non_embedding + counts.embedding;
  counts.tensors_stored = static_cast<int64_t>(specs.size() + buffers.size());
  return counts;
}

double training_flops_per_token(const ModelConfig& config, double mean_keys) {
  double flops = 6.0 * static_cast<double>(count_parameters(config).active_with_head);
  for (const LayerKind kind : config.layer_kinds) {
    const double keys = kind == LayerKind::kSliding
                            ? std::min(mean_keys, static_cast<double>(config.sliding_window))
                            : mean_keys;
    // Logits and their product with the values, 2 × 2 × Hq·d a key forward, twice that backward.
    flops += 12.0 * static_cast<double>(config.heads.query * config.heads.size) * keys;
  }
  return flops;
}

}  // namespace athanor::model
