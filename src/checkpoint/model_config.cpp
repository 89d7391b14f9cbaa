// config.json and generation_config.json of a model directory (zaya1.md §5.1).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

// Keys that the legacy layout has and the native one lacks (zaya1.md §5.2).
constexpr std::array<const char*, 4> kLegacyKeys{"zaya_mlp_expansion", "ffn_hidden_size",
                                                 "zaya_use_mod", "cca"};

int64_t size_member(const json& object, const char* key, const std::string& where) {
  const int64_t n = integer_member(object, key, where);
  // Far above any real model; keeps every count below in 64 bits.
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (n < 1 || n > kLargest) {
    throw data_error(fmt::format("{}: key \"{}\" is {}; 1 to 2147483648 is wanted", where, key, n));
  }
  return n;
}

double number_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_number()) {
    throw data_error(
        fmt::format("{}: key \"{}\" must be a number, not {}", where, key, value.type_name()));
  }
  return value.get<double>();
}

double positive_member(const json& object, const char* key, const std::string& where) {
  const double value = number_member(object, key, where);
  if (!(value > 0)) {
    throw data_error(fmt::format("{}: key \"{}\" is {}; it must be positive", where, key, value));
  }
  return value;
}

// The value of an optional key must be the one that the equations know.
void require_only(const json& root, const char* key, const json& known, const std::string& where) {
  const auto found = root.find(key);
  if (found == root.end() || *found == known) return;
  throw data_error(fmt::format("{}: key \"{}\" is {}; this program computes {} only", where, key,
                               printable(found->dump()), known.dump()));
}

/// The token ids under `key`, one or a list of them, each once; none where it is absent or null.
std::vector<int64_t> token_members(const json& root, const char* key, int64_t vocab,
                                   const std::string& where) {
  const auto found = root.find(key);
  if (found == root.end() || found->is_null()) return {};
  const std::vector<int64_t> all = found->is_array()
                                       ? integers_member(root, key, where)
                                       : std::vector{integer_member(root, key, where)};
  std::vector<int64_t> ids;
  for (const int64_t id : all) {
    if (id < 0 || id >= vocab) {
      throw data_error(fmt::format("{}: key \"{}\" holds {}, outside the vocabulary of {}", where,
                                   key, id, vocab));
    }
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

int64_t token_member(const json& root, const char* key, int64_t vocab, const std::string& where) {
  const auto found = root.find(key);
  if (found != root.end() && !found->is_null()) integer_member(root, key, where);  // no list
  const std::vector<int64_t> ids = token_members(root, key, vocab, where);
  return ids.empty() ? -1 : ids[0];
}

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

std::vector<model::LayerKind> parse_layer_kinds(const json& root, int64_t layers,
                                                const std::string& where) {
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

void refuse_unknown_architectures(const json& root, const std::string& where) {
  const std::string type = string_member(root, "model_type", where);
  if (type != "zaya") {
    throw data_error(fmt::format("{}: key \"model_type\" is \"{}\"; \"zaya\" is wanted", where,
                                 printable(type)));
  }
  for (const char* key : kLegacyKeys) {
    if (root.contains(key)) {
      throw data_error(
          fmt::format("{}: key \"{}\" belongs to the legacy ZAYA1 layout, which cannot "
                      "be read; use the native release of this model",
                      where, key));
    }
  }
  if (root.contains("quantization_config") && !root["quantization_config"].is_null()) {
    throw data_error(where + ": key \"quantization_config\": quantised weights cannot be read");
  }
  require_only(root, "attention_bias", false, where);
  require_only(root, "lm_head_bias", false, where);
  require_only(root, "attention_dropout", 0.0, where);
  require_only(root, "hidden_act", "silu", where);
  require_only(root, "cca_time0", 2, where);
  require_only(root, "cca_time1", 2, where);
  require_only(root, "num_experts_per_tok", 1, where);
  require_only(root, "tie_word_embeddings", true, where);
}

json id_or_null(int64_t id) { return id < 0 ? json(nullptr) : json(id); }

/// As it is read: a number, or a list of several.
json ids_or_null(std::span<const int64_t> ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? json(ids[0]) : json(ids);
}

std::vector<int64_t> eos_of(const model::ModelConfig& config) {
  std::vector<int64_t> ids = config.further_eos;
  if (config.eos >= 0) ids.insert(ids.begin(), config.eos);
  return ids;
}

}  // namespace

model::ModelConfig parse_model_config(std::string_view json_text, const std::string& where) {
  const json root = parse_json(json_text, where);
  refuse_unknown_architectures(root, where);
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
  config.max_positions = size_member(root, "max_position_embeddings", where);
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
  if (root.contains("sliding_window") && !root["sliding_window"].is_null()) {
    config.sliding_window = size_member(root, "sliding_window", where);
  }
  if (root.contains("initializer_range")) {
    config.initializer_range = number_member(root, "initializer_range", where);
  }
  config.bos = token_member(root, "bos_token_id", config.vocab, where);
  config.further_eos = token_members(root, "eos_token_id", config.vocab, where);
  if (!config.further_eos.empty()) {
    config.eos = config.further_eos.front();
    config.further_eos.erase(config.further_eos.begin());
  }
  config.pad = token_member(root, "pad_token_id", config.vocab, where);
  try {
    config.validate(kKeys);
  } catch (const Error& error) {
    throw data_error(where + ": " + error.what());
  }
  return config;
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
