#include "checkpoint/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/tensor.h"

namespace athanor::checkpoint {
namespace {

/// The layout's two names of a tensor. Names of a layer leave out "model.layers.N.".
struct Names {
  std::string_view native;
  /// Half-layer 2l + half holds the legacy tensor; half 2 of the last layer is the model itself.
  int64_t half;
  std::string_view legacy;  ///< with {} for the number of an expert
};

constexpr std::array<Names, 3> kBefore = {{
    {"model.input_hidden_states_scale", 0, "model.layers.0.res_scale.hidden_states_scale"},
    {"model.input_hidden_states_bias", 0, "model.layers.0.res_scale.hidden_states_bias"},
    {"model.embed_tokens.weight", 0, "model.embed_tokens.weight"},
}};
constexpr std::array<Names, 32> kLayer = {{
    {"self_attn.o_proj.weight", 0, "self_attn.o_proj.weight"},
    {"self_attn.qkv_proj.q_proj.weight", 0, "self_attn.qkv.linear_q.weight"},
    {"self_attn.qkv_proj.k_proj.weight", 0, "self_attn.qkv.linear_k.weight"},
    {"self_attn.qkv_proj.v_proj_current.weight", 0, "self_attn.qkv.val_proj1.weight"},
    {"self_attn.qkv_proj.v_proj_delayed.weight", 0, "self_attn.qkv.val_proj2.weight"},
    {"self_attn.qkv_proj.conv_qk_depthwise.weight", 0, "self_attn.qkv.conv_qk.0.weight"},
    {"self_attn.qkv_proj.conv_qk_depthwise.bias", 0, "self_attn.qkv.conv_qk.0.bias"},
    {"self_attn.qkv_proj.conv_qk_grouped.weight", 0, "self_attn.qkv.conv_qk.1.weight"},
    {"self_attn.qkv_proj.conv_qk_grouped.bias", 0, "self_attn.qkv.conv_qk.1.bias"},
    {"self_attn.qk_norm.temp", 0, "self_attn.qkv.temp"},
    {"mlp.gate.router_states_scale", 1, "zaya_block.router.router_states_scale"},
    {"mlp.gate.balancing_biases", 1, "zaya_block.router.balancing_biases"},
    {"mlp.gate.down_proj.weight", 1, "zaya_block.router.down_proj.weight"},
    {"mlp.gate.down_proj.bias", 1, "zaya_block.router.down_proj.bias"},
    {"mlp.gate.router_mlp.norm.weight", 1, "zaya_block.router.rmsnorm_eda.weight"},
    {"mlp.gate.router_mlp.fc1.weight", 1, "zaya_block.router.router_mlp.0.weight"},
    {"mlp.gate.router_mlp.fc1.bias", 1, "zaya_block.router.router_mlp.0.bias"},
    {"mlp.gate.router_mlp.fc2.weight", 1, "zaya_block.router.router_mlp.2.weight"},
    {"mlp.gate.router_mlp.fc2.bias", 1, "zaya_block.router.router_mlp.2.bias"},
    {"mlp.gate.router_mlp.out_proj.weight", 1, "zaya_block.router.router_mlp.4.weight"},
    {"mlp.experts.gate_up_proj", 1, "zaya_block.experts.local_experts.{}.linear_fc1.weight"},
    {"mlp.experts.down_proj", 1, "zaya_block.experts.local_experts.{}.linear_fc2.weight"},
    {"input_layernorm.weight", 0, "input_norm.weight"},
    {"post_attention_layernorm.weight", 1, "input_norm.weight"},
    {"post_attention_residual_scale.hidden_states_scale", 1, "res_scale.hidden_states_scale"},
    {"post_attention_residual_scale.hidden_states_bias", 1, "res_scale.hidden_states_bias"},
    {"post_attention_residual_scale.residual_scale", 1, "res_scale.residual_scale"},
    {"post_attention_residual_scale.residual_bias", 1, "res_scale.residual_bias"},
    {"post_mlp_residual_scale.hidden_states_scale", 2, "res_scale.hidden_states_scale"},
    {"post_mlp_residual_scale.hidden_states_bias", 2, "res_scale.hidden_states_bias"},
    {"post_mlp_residual_scale.residual_scale", 2, "res_scale.residual_scale"},
    {"post_mlp_residual_scale.residual_bias", 2, "res_scale.residual_bias"},
}};
constexpr std::array<Names, 1> kAfter = {{{"model.norm.weight", 0, "model.final_norm.weight"}}};

/// Places the model's tensors under the names of one layout.
class Placing {
 public:
  Placing(const model::ModelConfig& config, Layout layout)
      : layout_(layout), tensors_(model_tensors(config)) {
    for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].spec.name] = i;
  }

  /// A tensor that the model lacks (the first layer's router has no state to scale) is passed over.
  void place(const std::string& native, const std::string& legacy) {
    const auto found = index_.find(native);
    if (found == index_.end()) return;
    const model::ParameterSpec& spec = tensors_[found->second].spec;
    if (layout_ == Layout::kNative) {
      placed.push_back({spec.name, spec.shape, found->second, 0});
    } else if (spec.kind == model::ParameterKind::kExpertMatrices) {
      const std::vector<int64_t> shape(spec.shape.begin() + 1, spec.shape.end());
      for (int64_t e = 0; e < spec.shape[0]; ++e) {
        placed.push_back(
            {fmt::format(fmt::runtime(legacy), e), shape, found->second, e * numel_of(shape)});
      }
    } else {
      placed.push_back({legacy, spec.shape, found->second, 0});
    }
    ++known_;
  }
  bool complete() const { return known_ == tensors_.size(); }

  std::vector<LayoutTensor> placed;

 private:
  Layout layout_;
  std::vector<ModelTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  size_t known_ = 0;
};

std::string legacy_prefix(int64_t layer, int64_t half, int64_t layers) {
  const int64_t number = 2 * layer + half;
  return number == 2 * layers ? "model." : fmt::format("model.layers.{}.", number);
}

}  // namespace

const char* name_of(Layout layout) { return layout == Layout::kNative ? "native" : "legacy"; }

int64_t LayoutTensor::numel() const { return numel_of(shape); }

std::vector<ModelTensor> model_tensors(const model::ModelConfig& config) {
  std::vector<ModelTensor> tensors;
  for (auto& spec : model::parameter_specs(config)) tensors.push_back({std::move(spec), false});
  for (auto& spec : model::buffer_specs(config)) tensors.push_back({std::move(spec), true});
  return tensors;
}

std::vector<LayoutTensor> layout_tensors(const model::ModelConfig& config, Layout layout) {
  Placing placing(config, layout);
  const auto once = [&](const Names& names) {
    placing.place(std::string(names.native), std::string(names.legacy));
  };
  for (const Names& names : kBefore) once(names);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string native = fmt::format("model.layers.{}.", layer);
    for (const Names& names : kLayer) {
      placing.place(native + std::string(names.native),
                    legacy_prefix(layer, names.half, config.layers) + std::string(names.legacy));
    }
  }
  for (const Names& names : kAfter) once(names);
  require(placing.complete(), "a tensor of the model has no place in its layouts");
  if (layout == Layout::kLegacy) {
    std::sort(placing.placed.begin(), placing.placed.end(),
              [](const LayoutTensor& a, const LayoutTensor& b) { return a.name < b.name; });
  }
  return std::move(placing.placed);
}

}  // namespace athanor::checkpoint
