#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/model_directory.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using nlohmann::json;

json reference_config(const std::string& name) {
  return json::parse(std::ifstream(*golden_folder(name) / "config.json"));
}

model::ModelConfig parse(const json& config) {
  return checkpoint::parse_model_config(config.dump(), "config.json");
}

class ReferenceConfig : public testing::TestWithParam<const char*> {};

TEST_P(ReferenceConfig, IsReadAndWrittenBackAlike) {
  if (!golden_folder(GetParam())) GTEST_SKIP() << golden_absent(GetParam());
  const json reference = reference_config(GetParam());
  const DType dtype = reference.at("dtype") == "bfloat16" ? DType::kBF16 : DType::kF32;
  const std::string written = checkpoint::model_config_json(parse(reference), dtype);
  EXPECT_EQ(json::parse(written), reference);
}

INSTANTIATE_TEST_SUITE_P(Cases, ReferenceConfig,
                         testing::Values("tiny", "odd", "packed", "decode", "native_bf16",
                                         "sliding", "realhead"));

TEST(ModelConfig, SeveralTokensThatEndATextAreReadAndWrittenBackAlike) {
  json config = reference_config("tiny");
  config["eos_token_id"] = {1, 5, 1, 7};
  model::ModelConfig parsed = parse(config);
  EXPECT_EQ(parsed.eos, 1);
  EXPECT_EQ(parsed.stop_tokens(), (std::vector<int64_t>{1, 5, 7}));
  const auto written = [&] {
    return std::pair(json::parse(checkpoint::model_config_json(parsed, DType::kF32)),
                     json::parse(checkpoint::generation_config_json(parsed)));
  };
  EXPECT_EQ(written().first.at("eos_token_id"), (json{1, 5, 7}));
  EXPECT_EQ(written().second.at("eos_token_id"), (json{1, 5, 7}));

  const auto read = [&](const json& generation) {
    checkpoint::parse_generation_config(generation.dump(), "generation_config.json", parsed);
  };
  read({{"eos_token_id", {1, 5, 7}}});
  EXPECT_TRUE(parsed.generation_eos.empty()) << "they are the same";
  read({{"temperature", 0.6}});
  EXPECT_TRUE(parsed.generation_eos.empty()) << "none are named";
  read({{"eos_token_id", 9}});
  EXPECT_EQ(parsed.stop_tokens(), (std::vector<int64_t>{9}));
  EXPECT_EQ(parsed.eos, 1) << "of the end of documents the config tells";
  EXPECT_EQ(written().first.at("eos_token_id"), (json{1, 5, 7}));
  EXPECT_EQ(written().second.at("eos_token_id"), 9);
  EXPECT_THROW(read({{"eos_token_id", "end"}}), Error);
  EXPECT_THROW(read({{"eos_token_id", {1, 128}}}), Error);
  EXPECT_THROW(read(json::array()), Error);
}

TEST(ModelConfig, ReadsTheReleasedForm) {
  json config = reference_config("tiny");
  config["partial_rotary_factor"] = 0.5;
  config["rope_parameters"]["rope_type"] = "default";
  config["rope_parameters"]["hybrid"].erase("partial_rotary_factor");
  config["rope_parameters"]["hybrid_sliding"].erase("partial_rotary_factor");
  const model::ModelConfig parsed = parse(config);
  EXPECT_EQ(parsed.partial_rotary, 0.5);
  EXPECT_EQ(parsed.theta, 5e6);
  EXPECT_EQ(parsed.theta_sliding, 1e4);
  EXPECT_EQ(parsed.eos, 1);
}

TEST(ModelConfig, WithoutLayerTypesAllAttendFully) {
  json config = reference_config("tiny");
  config.erase("layer_types");
  EXPECT_EQ(parse(config).layer_kinds, parse(reference_config("tiny")).layer_kinds);
  config["layer_types"] = nullptr;
  EXPECT_EQ(parse(config).layer_kinds.size(), 3u);
  config["num_hidden_layers"] = int64_t{1} << 31;  // no list says that so many are meant
  expect_error(ExitCode::kData, {"num_hidden_layers"}, [&] { parse(config); });
}

TEST(ModelConfig, AbsentTokensAreNone) {
  json config = reference_config("tiny");
  config["bos_token_id"] = nullptr;
  config.erase("pad_token_id");
  EXPECT_EQ(parse(config).bos, -1);
  EXPECT_EQ(parse(config).pad, -1);
  const json back = json::parse(checkpoint::generation_config_json(parse(config)));
  EXPECT_FALSE(back.contains("bos_token_id"));
  EXPECT_EQ(back.at("eos_token_id"), 1);
}

struct BadConfig {
  const char* name;
  json::json_pointer key;
  json value;  // discarded: the key is removed
  std::vector<std::string> words;
};

/// The test's name in listings: an address would differ from run to run.
void PrintTo(  // NOLINT(readability-identifier-naming): GoogleTest looks for this name
    const BadConfig& bad, std::ostream* out) {
  *out << bad.name;
}

std::vector<BadConfig> bad_configs() {
  const auto at = [](const char* key) { return json::json_pointer(key); };
  const json removed(json::value_t::discarded);
  std::vector<BadConfig> bad{
      {"model_type", at("/model_type"), "llama", {"model_type", "llama"}},
      {"no_model_type", at("/model_type"), removed, {"model_type", "missing"}},
      {"legacy", at("/zaya_mlp_expansion"), 16, {"zaya_mlp_expansion", "legacy"}},
      {"quantised", at("/quantization_config"), json::object(), {"quantization_config"}},
      {"attention_bias", at("/attention_bias"), true, {"attention_bias"}},
      {"head_bias", at("/lm_head_bias"), true, {"lm_head_bias"}},
      {"dropout", at("/attention_dropout"), 0.1, {"attention_dropout"}},
      {"activation", at("/hidden_act"), "gelu", {"hidden_act", "gelu"}},
      {"taps", at("/cca_time0"), 3, {"cca_time0"}},
      {"taps_of_the_second", at("/cca_time1"), 4, {"cca_time1"}},
      {"top_k", at("/num_experts_per_tok"), 2, {"num_experts_per_tok"}},
      {"untied", at("/tie_word_embeddings"), false, {"tie_word_embeddings"}},
      {"zero_layers", at("/num_hidden_layers"), 0, {"num_hidden_layers"}},
      {"negative_hidden", at("/hidden_size"), -64, {"hidden_size", "-64"}},
      {"text_hidden", at("/hidden_size"), "64", {"hidden_size", "integer"}},
      {"fractional_heads", at("/num_attention_heads"), 4.5, {"num_attention_heads"}},
      {"heads_that_do_not_divide",
       at("/num_attention_heads"),
       3,
       {"num_attention_heads is 3", "num_key_value_heads"}},
      {"huge", at("/hidden_size"), int64_t{1} << 40, {"hidden_size"}},
      {"eps", at("/rms_norm_eps"), 0, {"rms_norm_eps"}},
      {"eps_text", at("/rms_norm_eps"), "small", {"rms_norm_eps", "number"}},
      {"odd_rotary",
       at("/rope_parameters/hybrid/partial_rotary_factor"),
       3.0 / 16,
       {"partial_rotary_factor", "head_dim", "even"}},
      {"rope_type", at("/rope_parameters/hybrid/rope_type"), "yarn", {"rope_type", "yarn"}},
      {"no_theta", at("/rope_parameters/hybrid/rope_theta"), removed, {"hybrid", "rope_theta"}},
      {"negative_theta", at("/rope_parameters/hybrid/rope_theta"), -1.0, {"rope_theta"}},
      {"no_rope", at("/rope_parameters"), removed, {"rope_parameters"}},
      {"no_full_rope", at("/rope_parameters/hybrid"), removed, {"rope_parameters", "hybrid"}},
      {"two_factors", at("/partial_rotary_factor"), 0.25, {"partial_rotary_factor", "two values"}},
      {"short_layer_types", at("/layer_types"), json::array({"hybrid"}), {"layer_types", "3"}},
      {"layer_type", at("/layer_types/1"), "mamba", {"layer_types", "mamba"}},
      {"sliding_without_a_window", at("/layer_types/1"), "hybrid_sliding", {"sliding_window"}},
      {"eos_outside", at("/eos_token_id"), 128, {"eos_token_id", "128"}},
      {"eos_list", at("/eos_token_id"), json::array({1, "2"}), {"eos_token_id", "integer"}},
      {"eos_list_outside", at("/eos_token_id"), json::array({1, 128}), {"eos_token_id", "128"}},
      {"bos_list", at("/bos_token_id"), json::array({1, 2}), {"bos_token_id", "integer"}},
  };
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "num_experts", "moe_intermediate_size", "router_hidden_size", "vocab_size",
        "max_position_embeddings", "rms_norm_eps"}) {
    bad.push_back({key, json::json_pointer(std::string("/") + key), removed, {key, "missing"}});
  }
  return bad;
}

class BadModelConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(BadModelConfig, IsRefusedByKey) {
  json config = reference_config("tiny");
  if (GetParam().value.is_discarded()) {
    config[GetParam().key.parent_pointer()].erase(GetParam().key.back());
  } else {
    config[GetParam().key] = GetParam().value;
  }
  std::vector<std::string> words = GetParam().words;
  words.emplace_back("config.json");
  expect_error(ExitCode::kData, words, [&] { parse(config); });
}

INSTANTIATE_TEST_SUITE_P(Keys, BadModelConfig, testing::ValuesIn(bad_configs()),
                         [](const auto& parameter) {
                           return std::to_string(parameter.index) + "_" + parameter.param.name;
                         });

TEST(ModelConfig, SizesWhoseProductOverflowsAreRefused) {
  json config = reference_config("tiny");
  config["hidden_size"] = config["vocab_size"] = int64_t{1} << 31;
  expect_error(ExitCode::kData, {"config.json", "no machine"}, [&] { parse(config); });
}

TEST(ModelConfig, TextThatIsNoConfigIsRefused) {
  for (const char* text :
       {"", "{", "[]", "7", "{\"model_type\":\"zaya\",\"model_type\":\"zaya\"}"}) {
    expect_error(ExitCode::kData, {"config.json"},
                 [&] { checkpoint::parse_model_config(text, "config.json"); });
  }
}

}  // namespace
}  // namespace athanor::test
