// config.json of the legacy layout (zaya1.md §5.2): half-layers, attention even, experts odd.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/config_reading.h"
#include "checkpoint/json_reading.h"
#include "checkpoint/model_directory.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

constexpr model::GeometryKeys kKeys = {
    .layers = "num_hidden_layers",
    .hidden = "hidden_size",
    .query_heads = "num_attention_heads",
    .key_heads = "num_query_groups",
    .head_size = "head_dim",
    .experts = "num_experts",
    .expert_inner = "ffn_hidden_size",
    .router = "zaya_mlp_expansion",
    .vocab = "vocab_size",
    .partial_rotary = "partial_rotary_factor",
    .rms_norm_eps = "norm_epsilon",
    .layer_kinds = "swa_layers",
    .sliding_window = "swa_layers",
    .theta = "rope_theta",
    .theta_sliding = "swa_rotary_base",
    .initializer_range = "initializer_range",
};
constexpr double kThetaSliding = 1e4;
constexpr double kInitializerRange = 0.02;

enum Half : uint8_t { kAttention = 0, kExperts = 1 };

/// What a legacy config says in several places or under several names, in one.
class LegacyReader {
 public:
  LegacyReader(const json& root, const std::string& where) : root_(root), where_(where) {
    const char* layers = first_key({"zaya_layers", "smoe_layers"});
    if (layers == nullptr) {
      halves_ = static_cast<size_t>(layers_member(root, "num_hidden_layers", where));
    } else {  // such a config's num_hidden_layers may be another: the list tells what there is
      halves_ = list(layers).size();
      read_layers(layers);
    }
    if (halves_ == 0 || halves_ % 2 != 0) {
      throw data_error(fmt::format(
          "{}: key \"{}\": {} half-layers; attention and experts take turns, so an even number is "
          "wanted",
          where, layers == nullptr ? "num_hidden_layers" : layers, halves_));
    }
  }

  int64_t layers() const { return static_cast<int64_t>(halves_ / 2); }
  size_t halves() const { return halves_; }

  /// The first of `keys` that has a value; null when none has.
  const char* first_key(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      if (has_member(root_, key)) return key;
    }
    return nullptr;
  }

  /// The size that every one of `keys` says that is there: one number, or a list with an entry for each half-layer, of which
  /// those of `half` count. At least one must be there.
  int64_t size(Half half, std::initializer_list<const char*> keys) const {
    const char* said = nullptr;
    int64_t value = 0;
    for (const char* key : keys) {
      if (!has_member(root_, key)) continue;
      const int64_t own =
          root_[key].is_array() ? common_entry(key, half) : size_member(root_, key, where_);
      agree(said, static_cast<double>(value), key, static_cast<double>(own));
      said = key;
      value = own;
    }
    if (said == nullptr) size_member(root_, *keys.begin(), where_);  // says that it is missing
    return value;
  }

  double positive(std::initializer_list<const char*> keys) const {
    const char* said = nullptr;
    double value = 0;
    for (const char* key : keys) {
      if (!has_member(root_, key)) continue;
      const double own = positive_member(root_, key, where_);
      agree(said, value, key, own);
      said = key;
      value = own;
    }
    if (said == nullptr) positive_member(root_, *keys.begin(), where_);
    return value;
  }

  /// Entries of a list with one for each half-layer.
  std::vector<int64_t> entries(const char* key) const {
    std::vector<int64_t> values = integers_member(root_, key, where_);
    if (values.size() != halves_) {
      throw data_error(fmt::format("{}: key \"{}\" has {} entries for {} half-layers", where_, key,
                                   values.size(), halves_));
    }
    return values;
  }

  /// The experts of `zaya_layers`, or 0.
  int64_t listed_experts() const { return listed_experts_; }

 private:
  const json& list(const char* key) const {
    const json& value = root_[key];
    if (!value.is_array()) {
      throw data_error(fmt::format("{}: key \"{}\" must be a list", where_, key));
    }
    return value;
  }

  // ["a", 16, "a", 16, …]
  void read_layers(const char* key) {
    const json& layers = list(key);
    for (size_t i = 0; i < layers.size(); ++i) {
      const json& entry = layers[i];
      const bool fits = i % 2 == kAttention
                            ? entry == "a"
                            : entry.is_number_integer() && entry.get<int64_t>() > 0 &&
                                  (listed_experts_ == 0 || entry == listed_experts_);
      if (!fits) {
        throw data_error(fmt::format(
            "{}: key \"{}\": entry {} is {}; \"a\" and one number of experts must take turns",
            where_, key, i, printable(entry.dump())));
      }
      if (i % 2 == kExperts) listed_experts_ = entry.get<int64_t>();
    }
  }

  int64_t common_entry(const char* key, Half half) const {
    const std::vector<int64_t> values = entries(key);
    for (size_t i = half; i < values.size(); i += 2) {
      if (values[i] < 1 || values[i] > (int64_t{1} << 31) || values[i] != values[half]) {
        throw data_error(
            fmt::format("{}: key \"{}\": entry {} is {}, entry {} is {}; layers alike "
                        "and sizes from 1 on are wanted",
                        where_, key, static_cast<int>(half), values[half], i, values[i]));
      }
    }
    return values[half];
  }

  void agree(const char* said, double value, const char* key, double own) const {
    if (said == nullptr || value == own) return;
    throw data_error(fmt::format("{}: key \"{}\" says {}, key \"{}\" {}: they must agree", where_,
                                 said, value, key, own));
  }

  const json& root_;
  const std::string& where_;
  size_t halves_ = 0;
  int64_t listed_experts_ = 0;
};

void require_known_equations(const json& root, const std::string& where) {
  require_only(root, "activation_func", "swiglu", where);
  require_only(root, "gated_linear_unit", true, where);
  require_only(root, "normalization", "RMSNorm", where);
  require_only(root, "add_bias_linear", false, where);
  require_only(root, "cca", true, where);
  require_only(root, "clamp_temp", false, where);
  require_only(root, "moe_router_topk", 1, where);
  require_only(root, "scale_residual_merge", true, where);
  require_only(root, "zaya_use_eda", true, where);
  require_only(root, "zaya_use_mod", true, where);
  if (has_member(root, "rope_scaling")) require_only(root, "rope_scaling", false, where);
}

/// swa_layers: for each half-layer the previous tokens that a query sees beside its own; 0 is all. A window of ours counts the
/// query's own token.
void read_windows(const json& root, const LegacyReader& reader, const std::string& where,
                  model::ModelConfig& config) {
  config.layer_kinds.assign(static_cast<size_t>(config.layers), model::LayerKind::kFull);
  int64_t window = 0;
  if (has_member(root, "swa_layers")) {
    const std::vector<int64_t> previous = reader.entries("swa_layers");
    for (size_t i = 0; i < previous.size(); ++i) {
      if (previous[i] < 0 || previous[i] >= (int64_t{1} << 31) ||
          (previous[i] > 0 && window > 0 && previous[i] != window)) {
        throw data_error(fmt::format(
            "{}: key \"swa_layers\": entry {} is {}; 0 and one window for all are computed", where,
            i, previous[i]));
      }
      if (previous[i] > 0) window = previous[i];
      if (previous[i] > 0 && i % 2 == kAttention) {
        config.layer_kinds[i / 2] = model::LayerKind::kSliding;
      }
    }
  }
  const bool sliding = std::ranges::count(config.layer_kinds, model::LayerKind::kSliding) > 0;
  if (has_member(root, "swa_rotary_base") || sliding) {
    config.theta_sliding = positive_member(root, "swa_rotary_base", where);
  }
  if (sliding) config.sliding_window = window + 1;
  if (!has_member(root, "sliding_window")) return;
  const int64_t said = size_member(root, "sliding_window", where);
  if (!sliding) {
    config.sliding_window = said;  // of no layer
  } else if (said != window && said != window + 1) {
    throw data_error(fmt::format("{}: key \"sliding_window\" is {}, but swa_layers says {}", where,
                                 said, window));
  }
}

}  // namespace

model::ModelConfig parse_legacy_config(const json& root, const std::string& where) {
  require_known_equations(root, where);
  const LegacyReader reader(root, where);
  model::ModelConfig config;
  config.layers = reader.layers();
  config.hidden = size_member(root, "hidden_size", where);
  // Where both are there, num_attention_heads counts the heads before compression.
  config.heads.query = has_member(root, "cca_num_q_heads")
                           ? reader.size(kAttention, {"cca_num_q_heads"})
                           : reader.size(kAttention, {"num_attention_heads"});
  config.heads.key = has_member(root, "num_query_groups_list")
                         ? reader.size(kAttention, {"num_query_groups_list"})
                         : reader.size(kAttention, {"num_query_groups", "num_key_value_heads"});
  config.heads.size = reader.size(kAttention, {"head_dim", "kv_channels"});
  config.experts = reader.listed_experts() > 0 && !has_member(root, "num_experts")
                       ? reader.listed_experts()
                       : reader.size(kExperts, {"num_experts"});
  if (reader.listed_experts() > 0 && reader.listed_experts() != config.experts) {
    throw data_error(fmt::format("{}: key \"num_experts\" is {}, but the list of layers says {}",
                                 where, config.experts, reader.listed_experts()));
  }
  const int64_t gate_and_up = has_member(root, "ffn_hidden_size_list")
                                  ? reader.size(kExperts, {"ffn_hidden_size_list"})
                                  : reader.size(kExperts, {"ffn_hidden_size"});
  if (gate_and_up % 2 != 0) {
    throw data_error(fmt::format(
        "{}: key \"ffn_hidden_size\" is {}; it counts gate and up, so an even number is wanted",
        where, gate_and_up));
  }
  config.expert_inner = gate_and_up / 2;
  config.router = reader.size(kExperts, {"zaya_mlp_expansion", "smoe_mlp_expansion"});
  config.vocab = size_member(root, "vocab_size", where);
  config.rms_norm_eps = positive_member(root, "norm_epsilon", where);
  config.theta = reader.positive({"rope_theta", "rotary_base"});
  if (has_member(root, "partial_rotary_factor")) {  // every version that is known has 0.5
    config.partial_rotary = number_member(root, "partial_rotary_factor", where);
  }
  read_windows(root, reader, where, config);
  read_common(root, where, config);
  require_valid(config, kKeys, where);
  return config;
}

std::string legacy_config_json(const model::ModelConfig& config, DType dtype) {
  const bool sliding = std::ranges::count(config.layer_kinds, model::LayerKind::kSliding) > 0;
  if (sliding && config.sliding_window == 1) {
    throw data_error(
        "sliding_window is 1: the legacy layout counts the tokens before a query's own, and its 0 "
        "means all of them");
  }
  json windows = nullptr;
  if (sliding) {
    windows = json::array();
    for (const model::LayerKind kind : config.layer_kinds) {
      windows.push_back(kind == model::LayerKind::kSliding ? config.sliding_window - 1 : 0);
      windows.push_back(0);
    }
  }
  const bool unused_window = !sliding && config.sliding_window > 0;
  const bool own_theta = sliding || config.theta_sliding != kThetaSliding;
  json root{{"activation_func", "swiglu"},
            {"activation_func_fp8_input_store", false},
            {"add_bias_linear", false},
            {"apply_rope_fusion", true},
            {"architectures", {"ZayaForCausalLM"}},
            {"attention_bias", false},
            {"attention_dropout", 0.0},
            {"bias_activation_fusion", true},
            {"bos_token_id", id_or_null(config.bos)},
            {"cca", true},
            {"cca_time0", 2},
            {"cca_time1", 2},
            {"clamp_temp", false},
            {"dtype", dtype == DType::kBF16 ? "bfloat16" : "float32"},
            {"eos_token_id", ids_or_null(eos_of(config))},
            {"ffn_hidden_size", 2 * config.expert_inner},
            {"fused_add_norm", false},
            {"gated_linear_unit", true},
            {"head_dim", config.heads.size},
            {"hidden_size", config.hidden},
            {"kv_channels", config.heads.size},
            {"lm_head_bias", false},
            {"mamba_cache_dtype", "float32"},
            {"max_position_embeddings", config.max_positions},
            {"model_type", "zaya"},
            {"moe_router_topk", 1},
            {"norm_epsilon", config.rms_norm_eps},
            {"normalization", "RMSNorm"},
            {"num_attention_heads", config.heads.query},
            {"num_experts", config.experts},
            {"num_hidden_layers", 2 * config.layers},
            {"num_key_value_heads", config.heads.key},
            {"num_query_groups", config.heads.key},
            {"pad_token_id", id_or_null(config.pad)},
            {"partial_rotary_factor", config.partial_rotary},
            {"residual_in_fp32", true},
            {"rope_scaling", false},
            {"rope_theta", config.theta},
            {"scale_residual_merge", true},
            {"sliding_window", unused_window ? json(config.sliding_window) : json(nullptr)},
            {"swa_layers", windows},
            {"swa_rotary_base", own_theta ? json(config.theta_sliding) : json(nullptr)},
            {"tie_word_embeddings", true},
            {"use_cache", true},
            {"vocab_size", config.vocab},
            {"zaya_high_prec", true},
            {"zaya_mlp_expansion", config.router},
            {"zaya_use_eda", true},
            {"zaya_use_mod", true}};
  if (config.initializer_range !=
      kInitializerRange) {  // no layout of theirs has it, ours comes back with it
    root["initializer_range"] = config.initializer_range;
  }
  return root.dump(2) + "\n";
}

}  // namespace athanor::checkpoint
