// config.json and generation_config.json of a model directory (zaya1.md §5.1).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_reading.h"
#include "checkpoint/json_reading.h"
#include "checkpoint/model_directory.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

// The release whose save_pretrained this program's files equal.
constexpr const char* kTransformersVersion = "5.24.0";
/// The geometry's parts as config.json spells them.
constexpr model::GeometryKeys kKeys = {
    .layers = "num_hidden_layers",
    .hidden = "hidden_size",
    .query_heads = "num_attention_heads",
    .key_heads = "num_key_value_heads",
    .head_size = "head_dim",
    .experts = "num_experts",
    .expert_inner = "moe_intermediate_size",
    .router = "router_hidden_size",
    .vocab = "vocab_size",
    .partial_rotary = "partial_rotary_factor",
    .rms_norm_eps = "rms_norm_eps",
    .layer_kinds = "layer_types",
    .sliding_window = "sliding_window",
    .theta = "rope_parameters.hybrid.rope_theta",
    .theta_sliding = "rope_parameters.hybrid_sliding.rope_theta",
    .initializer_range = "initializer_range",
};
constexpr const char* kFull = "hybrid";
constexpr const char* kSliding = "hybrid_sliding";

struct Rotary {
  double theta = 1e4;
  double factor = 0.5;
};

// rope_parameters[kind]; the factor may stand at the top of the config instead, or in both places
// alike.
Rotary parse_rotary(const json& root, const char* kind, const std::string& where) {
  const json& all = member(root, "rope_parameters", where);
  const std::string inside = where + ": rope_parameters";
  const json& own = member(all, kind, inside);
  const std::string place = inside + "." + kind;
  Rotary rotary;
  rotary.theta = positive_member(own, "rope_theta", place);
  require_only(own, "rope_type", "default", place);
  require_only(all, "rope_type", "default", inside);
  const bool at_top = root.contains("partial_rotary_factor");
  const bool within = own.contains("partial_rotary_factor");
  rotary.factor = within || !at_top ? number_member(own, "partial_rotary_factor", place)
                                    : number_member(root, "partial_rotary_factor", where);
  if (at_top && rotary.factor != number_member(root, "partial_rotary_factor", where)) {
    throw data_error(where + ": key \"partial_rotary_factor\" has two values");
  }
  return rotary;
}

/// One kind a layer. Versions that had no other kind leave the list out.
std::vector<model::LayerKind> parse_layer_kinds(const json& root, int64_t layers,
                                                const std::string& where) {
  if (!has_member(root, "layer_types")) {
    layers_member(root, "num_hidden_layers", where);
    return std::vector<model::LayerKind>(static_cast<size_t>(layers), model::LayerKind::kFull);
  }
  const json& types = member(root, "layer_types", where);
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) {
    throw data_error(fmt::format(
        "{}: key \"layer_types\" must be a list of num_hidden_layers = {} entries", where, layers));
  }
  std::vector<model::LayerKind> kinds;
  for (const json& type : types) {
    if (type == kFull) {
      kinds.push_back(model::LayerKind::kFull);
    } else if (type == kSliding) {
      kinds.push_back(model::LayerKind::kSliding);
    } else {
      throw data_error(fmt::format("{}: key \"layer_types\" holds {}; \"{}\" and \"{}\" are known",
                                   where, printable(type.dump()), kFull, kSliding));
    }
  }
  return kinds;
}

model::ModelConfig parse_native_config(const json& root, const std::string& where) {
  require_only(root, "hidden_act", "silu", where);
  require_only(root, "num_experts_per_tok", 1, where);
  model::ModelConfig config;
  config.layers = size_member(root, "num_hidden_layers", where);
  config.hidden = size_member(root, "hidden_size", where);
  config.heads.query = size_member(root, "num_attention_heads", where);
  config.heads.key = size_member(root, "num_key_value_heads", where);
  config.heads.size = size_member(root, "head_dim", where);
  config.experts = size_member(root, "num_experts", where);
  config.expert_inner = size_member(root, "moe_intermediate_size", where);
  config.router = size_member(root, "router_hidden_size", where);
  config.vocab = size_member(root, "vocab_size", where);
  config.rms_norm_eps = positive_member(root, "rms_norm_eps", where);
  config.layer_kinds = parse_layer_kinds(root, config.layers, where);
  const bool sliding = std::find(config.layer_kinds.begin(), config.layer_kinds.end(),
                                 model::LayerKind::kSliding) != config.layer_kinds.end();

  const Rotary full = parse_rotary(root, kFull, where);
  config.theta = full.theta;
  config.partial_rotary = full.factor;
  if (sliding || root["rope_parameters"].contains(kSliding)) {
    const Rotary own = parse_rotary(root, kSliding, where);
    if (sliding && own.factor != full.factor) {
      throw data_error(where + ": key \"partial_rotary_factor\" differs between layer types");
    }
    config.theta_sliding = own.theta;
  }
  if (has_member(root, "sliding_window")) {
    config.sliding_window = size_member(root, "sliding_window", where);
  }
  read_common(root, where, config);
  require_valid(config, kKeys, where);
  return config;
}

}  // namespace

Layout parse_layout(std::string_view json_text, const std::string& where) {
  return is_legacy_config(parse_json(json_text, where), where) ? Layout::kLegacy : Layout::kNative;
}

model::ModelConfig parse_model_config(std::string_view json_text, const std::string& where) {
  const json root = parse_json(json_text, where);
  return is_legacy_config(root, where) ? parse_legacy_config(root, where)
                                       : parse_native_config(root, where);
}

Layout read_layout(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  return parse_layout(read_file(path), path.string());
}

model::ModelConfig read_model_config(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  model::ModelConfig config = parse_model_config(read_file(path), path.string());
  const fs::path generation = directory / kGenerationConfig;
  if (fs::exists(generation)) {
    parse_generation_config(read_file(generation), generation.string(), config);
  }
  return config;
}

void parse_generation_config(std::string_view json_text, const std::string& where,
                             model::ModelConfig& config) {
  const json root = parse_json(json_text, where);
  if (!root.is_object()) throw data_error(where + ": not a JSON object");
  const std::vector<int64_t> eos = token_members(root, "eos_token_id", config.vocab, where);
  if (eos != eos_of(config)) config.generation_eos = eos;
}

std::string model_config_json(const model::ModelConfig& config, DType dtype) {
  const auto rotary = [&](double theta) {
    return json{{"partial_rotary_factor", config.partial_rotary},
                {"rope_theta", theta},
                {"rope_type", "default"}};
  };
  json types = json::array();
  for (const model::LayerKind kind : config.layer_kinds) {
    types.push_back(kind == model::LayerKind::kSliding ? kSliding : kFull);
  }
  const json root{
      {"architectures", {"ZayaForCausalLM"}},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"bos_token_id", id_or_null(config.bos)},
      {"cca_time0", 2},
      {"cca_time1", 2},
      {"dtype", dtype == DType::kBF16 ? "bfloat16" : "float32"},
      {"eos_token_id", ids_or_null(eos_of(config))},
      {"head_dim", config.heads.size},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden},
      {"initializer_range", config.initializer_range},
      {"layer_types", types},
      {"lm_head_bias", false},
      {"max_position_embeddings", config.max_positions},
      {"model_type", "zaya"},
      {"moe_intermediate_size", config.expert_inner},
      {"num_attention_heads", config.heads.query},
      {"num_experts", config.experts},
      {"num_experts_per_tok", 1},
      {"num_hidden_layers", config.layers},
      {"num_key_value_heads", config.heads.key},
      {"output_router_logits", false},
      {"pad_token_id", id_or_null(config.pad)},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_parameters",
       {{kFull, rotary(config.theta)}, {kSliding, rotary(config.theta_sliding)}}},
      {"router_hidden_size", config.router},
      {"sliding_window", config.sliding_window > 0 ? json(config.sliding_window) : json(nullptr)},
      {"tie_word_embeddings", true},
      {"transformers_version", kTransformersVersion},
      {"use_cache", true},
      {"vocab_size", config.vocab}};
  return root.dump(2) + "\n";
}

std::string generation_config_json(const model::ModelConfig& config) {
  json root{{"_from_model_config", true}, {"transformers_version", kTransformersVersion}};
  if (config.bos >= 0) root["bos_token_id"] = config.bos;
  const std::vector<int64_t> eos = config.stop_tokens();
  if (!eos.empty()) root["eos_token_id"] = ids_or_null(eos);
  if (config.pad >= 0) root["pad_token_id"] = config.pad;
  return root.dump(2) + "\n";
}

}  // namespace athanor::checkpoint
