// config.json of the legacy layout: every form that versions wrote, and what is refused by name.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/model_directory.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using checkpoint::Layout;
using nlohmann::json;

/// The config of ZAYA1-8B-legacy (zaya1.md §5.2), as far as it says something about the model.
json released() {
  return json::parse(R"({
    "architectures": ["ZayaForCausalLM"], "model_type": "zaya", "dtype": "bfloat16",
    "activation_func": "swiglu", "activation_func_fp8_input_store": false, "add_bias_linear": false,
    "attention_bias": false, "apply_rope_fusion": true, "bias_activation_fusion": true, "cca": true,
    "clamp_temp": false, "ffn_hidden_size": 4096, "fused_add_norm": false, "gated_linear_unit": true,
    "head_dim": 128, "kv_channels": 128, "mamba_cache_dtype": "float32", "moe_router_topk": 1,
    "norm_epsilon": 1e-5, "normalization": "RMSNorm", "num_attention_heads": 8, "num_experts": 16,
    "num_hidden_layers": 80, "num_key_value_heads": 2, "num_query_groups": 2,
    "partial_rotary_factor": 0.5, "residual_in_fp32": true, "rope_scaling": false,
    "rope_theta": 5e6, "scale_residual_merge": true, "swa_layers": null, "swa_rotary_base": null,
    "zaya_high_prec": true, "zaya_mlp_expansion": 256, "zaya_use_eda": true, "zaya_use_mod": true,
    "hidden_size": 2048, "vocab_size": 262272, "max_position_embeddings": 131072,
    "bos_token_id": 2, "eos_token_id": 106, "pad_token_id": 0, "tie_word_embeddings": true})");
}

/// The same model as the base release says it: lists with an entry for each half-layer, heads counted before compression.
json base_form() {
  json config = released();
  json heads = json::array(), groups = heads, inner = heads, layers = heads, expansion = heads;
  for (int l = 0; l < 40; ++l) {
    heads.insert(heads.end(), {8, 0});
    groups.insert(groups.end(), {2, 0});
    inner.insert(inner.end(), {0, 4096});
    layers.insert(layers.end(), {"a", 16});
    expansion.insert(expansion.end(), {0, 256});
  }
  config["num_attention_heads"] = 16;
  config["cca_num_q_heads"] = heads;
  config["num_query_groups_list"] = groups;
  config["ffn_hidden_size_list"] = inner;
  config["zaya_layers"] = layers;
  config["zaya_mlp_expansion"] = expansion;
  config["num_hidden_layers"] = 120;
  return config;
}

model::ModelConfig parse(const json& config) {
  return checkpoint::parse_model_config(config.dump(), "config.json");
}

/// Everything of a config that is computed with.
std::string said(const json& config) {
  return checkpoint::model_config_json(parse(config), DType::kBF16);
}

TEST(LegacyConfig, TheReleasedOne) {
  EXPECT_EQ(checkpoint::parse_layout(released().dump(), "config.json"), Layout::kLegacy);
  const model::ModelConfig config = parse(released());
  EXPECT_EQ(config.layers, 40);
  EXPECT_EQ(config.heads.query, 8);
  EXPECT_EQ(config.heads.key, 2);
  EXPECT_EQ(config.expert_inner, 2048);
  EXPECT_EQ(config.router, 256);
  EXPECT_EQ(config.theta, 5e6);
  EXPECT_EQ(config.eos, 106);
  EXPECT_EQ(model::count_parameters(config).total, 8'840'488'784);
}

TEST(LegacyConfig, OtherVersionsSayTheSameOtherwise) {
  const std::string expected = said(released());
  EXPECT_EQ(said(base_form()), expected);
  json config = base_form();
  config.erase("num_experts");
  config.erase("ffn_hidden_size");
  config.erase("num_query_groups");
  config.erase("num_key_value_heads");
  config["smoe_layers"] = config["zaya_layers"];
  config.erase("zaya_layers");
  config["smoe_mlp_expansion"] = config["zaya_mlp_expansion"];
  config.erase("zaya_mlp_expansion");
  config["rotary_base"] = config["rope_theta"];
  config.erase("rope_theta");
  EXPECT_EQ(said(config), expected);
  // Fields that versions leave out.
  config = released();
  for (const char* key : {"activation_func",
                          "activation_func_fp8_input_store",
                          "add_bias_linear",
                          "attention_bias",
                          "apply_rope_fusion",
                          "bias_activation_fusion",
                          "cca",
                          "clamp_temp",
                          "fused_add_norm",
                          "gated_linear_unit",
                          "kv_channels",
                          "mamba_cache_dtype",
                          "moe_router_topk",
                          "normalization",
                          "num_key_value_heads",
                          "partial_rotary_factor",
                          "residual_in_fp32",
                          "rope_scaling",
                          "scale_residual_merge",
                          "swa_layers",
                          "swa_rotary_base",
                          "zaya_high_prec",
                          "zaya_use_eda",
                          "zaya_use_mod",
                          "tie_word_embeddings",
                          "architectures",
                          "dtype"}) {
    config.erase(key);
    EXPECT_EQ(said(config), expected) << "without " << key;
  }
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(said(config), expected);
}

TEST(LegacyConfig, TheReferenceIsReadAsTheNativeOneAndWrittenBack) {
  const auto legacy = golden_folder("legacy");
  const auto native = golden_folder("tiny");
  if (!legacy || !native) GTEST_SKIP() << golden_absent("legacy");
  const model::ModelConfig config = checkpoint::read_model_config(*legacy);
  EXPECT_EQ(json::parse(checkpoint::model_config_json(config, DType::kF32)),
            json::parse(read_file(*native / "config.json")));
  EXPECT_EQ(json::parse(checkpoint::legacy_config_json(config, DType::kF32)),
            json::parse(read_file(*legacy / "config.json")));
  EXPECT_EQ(checkpoint::read_layout(*legacy), Layout::kLegacy);
  EXPECT_EQ(checkpoint::read_layout(*native), Layout::kNative);
}

/// As the 74B: every second layer from the first on has a window of its own and the 4,096 tokens before it.
json sliding() {
  json config = released();
  json windows = json::array();
  for (int l = 0; l < 20; ++l) windows.insert(windows.end(), {4096, 0, 0, 0});
  config["swa_layers"] = windows;
  config["swa_rotary_base"] = 1e4;
  return config;
}

TEST(LegacyConfig, AWindowOfOursCountsTheTokenItself) {
  const model::ModelConfig config = parse(sliding());
  EXPECT_EQ(config.sliding_window, 4097);
  EXPECT_EQ(config.layer_kinds[0], model::LayerKind::kSliding);
  EXPECT_EQ(config.layer_kinds[1], model::LayerKind::kFull);
  EXPECT_EQ(config.theta_sliding, 1e4);
  const json back = json::parse(checkpoint::legacy_config_json(config, DType::kBF16));
  EXPECT_EQ(back.at("swa_layers"), sliding().at("swa_layers"));
  EXPECT_EQ(back.at("swa_rotary_base"), 1e4);
}

TEST(LegacyConfig, NothingOfAConfigIsLostOnTheWayThrough) {
  model::ModelConfig config = parse(sliding());
  config.initializer_range = 0.01;
  config.theta_sliding = 2e4;
  config.partial_rotary = 0.25;
  for (const bool slides : {true, false}) {
    if (!slides) config.layer_kinds.assign(40, model::LayerKind::kFull);
    const std::string text = checkpoint::legacy_config_json(config, DType::kBF16);
    EXPECT_EQ(checkpoint::model_config_json(checkpoint::parse_model_config(text, "c"), DType::kF32),
              checkpoint::model_config_json(config, DType::kF32));
  }
  config = parse(sliding());
  config.sliding_window = 1;
  expect_error(ExitCode::kData, {"sliding_window"},
               [&] { checkpoint::legacy_config_json(config, DType::kBF16); });
}

struct BadConfig {
  const char* key;
  json value;  ///< discarded: the key is removed
  std::vector<std::string> words;
  json base = released();
};

TEST(LegacyConfig, WhatIsNotKnownIsRefusedByKey) {
  const json removed(json::value_t::discarded);
  json uneven = base_form().at("cca_num_q_heads");
  uneven[2] = 16;
  json short_list = base_form().at("ffn_hidden_size_list");
  short_list.erase(0);
  json layers = base_form().at("zaya_layers");
  layers[1] = "a";
  json experts = base_form().at("zaya_layers");
  experts[3] = 8;
  json odd_layers = base_form().at("zaya_layers");
  odd_layers.push_back("a");
  json windows = sliding().at("swa_layers");
  windows[4] = 2048;
  const std::vector<BadConfig> bad = {
      {"activation_func", "gelu", {"gelu"}},
      {"gated_linear_unit", false, {}},
      {"normalization", "LayerNorm", {"LayerNorm"}},
      {"add_bias_linear", true, {}},
      {"attention_bias", true, {}},
      {"lm_head_bias", true, {}},
      {"attention_dropout", 0.1, {}},
      {"cca", false, {}},
      {"cca_time0", 3, {}},
      {"cca_time1", 4, {}},
      {"clamp_temp", true, {}},
      {"moe_router_topk", 2, {}},
      {"scale_residual_merge", false, {}},
      {"zaya_use_eda", false, {}},
      {"zaya_use_mod", false, {}},
      {"tie_word_embeddings", false, {}},
      {"rope_scaling", {{"type", "yarn"}}, {"yarn"}},
      {"model_type", "llama", {"llama"}},
      {"quantization_config", json::object(), {}},
      {"moe_intermediate_size", 2048, {"legacy", "native"}},
      {"layer_types", json::array({"hybrid"}), {"legacy", "native"}},
      {"num_hidden_layers", 79, {"79", "even"}},
      {"num_hidden_layers", int64_t{1} << 31, {"200000"}},
      {"num_hidden_layers", removed, {"missing"}},
      {"hidden_size", removed, {"missing"}},
      {"num_attention_heads", removed, {"missing"}},
      {"num_attention_heads", 7, {"num_query_groups"}},
      {"num_key_value_heads", 4, {"num_query_groups", "agree"}},
      {"kv_channels", 64, {"head_dim", "agree"}},
      {"ffn_hidden_size", 4095, {"even"}},
      {"ffn_hidden_size", removed, {"missing"}},
      {"num_experts", "16", {"integer"}},
      {"zaya_mlp_expansion", removed, {"missing"}},
      {"norm_epsilon", removed, {"missing"}},
      {"rope_theta", removed, {"missing"}},
      {"rotary_base", 1e6, {"rope_theta", "agree"}},
      {"vocab_size", removed, {"missing"}},
      {"max_position_embeddings", removed, {"missing"}},
      {"eos_token_id", 262272, {"vocabulary"}},
      {"swa_layers", 4096, {"list"}},
      {"swa_layers", json::array({4096, 0}), {"2 entries", "80"}},
      {"swa_layers", windows, {"entry 4", "2048"}, sliding()},
      {"swa_layers", json::array({"a"}), {"list of integers"}},
      {"swa_rotary_base", nullptr, {"number"}, sliding()},
      {"sliding_window", 512, {"swa_layers"}, sliding()},
      {"cca_num_q_heads", uneven, {"entry 2 is 16"}, base_form()},
      {"cca_num_q_heads", json::array({8, 0}), {"2 entries", "80"}, base_form()},
      {"ffn_hidden_size_list", short_list, {"79 entries", "80"}, base_form()},
      {"zaya_layers", layers, {"entry 1"}, base_form()},
      {"zaya_layers", experts, {"entry 3"}, base_form()},
      {"zaya_layers", odd_layers, {"81", "even"}, base_form()},
      {"zaya_layers", json::array(), {"0 half-layers"}, base_form()},
      {"zaya_layers", 80, {"list"}, base_form()},
      {"num_experts", 8, {"16"}, base_form()},
  };
  for (const BadConfig& wrong : bad) {
    SCOPED_TRACE(std::string(wrong.key) + " = " + wrong.value.dump());
    json config = wrong.base;
    if (wrong.value.is_discarded()) {
      config.erase(wrong.key);
      if (std::string(wrong.key) == "num_experts") config.erase("zaya_layers");
    } else {
      config[wrong.key] = wrong.value;
    }
    std::vector<std::string> words = wrong.words;
    words.insert(words.end(), {"config.json", wrong.key});
    expect_error(ExitCode::kData, words, [&] { parse(config); });
  }
}

}  // namespace
}  // namespace athanor::test
