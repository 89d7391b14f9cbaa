#include "checkpoint/config_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/json_reading.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

// Keys that the one layout has and the other lacks (zaya1.md §5.1, §5.2).
constexpr std::array kLegacyKeys{"zaya_mlp_expansion",
                                 "smoe_mlp_expansion",
                                 "ffn_hidden_size",
                                 "ffn_hidden_size_list",
                                 "zaya_layers",
                                 "smoe_layers",
                                 "cca_num_q_heads",
                                 "num_query_groups_list",
                                 "zaya_use_mod",
                                 "zaya_use_eda",
                                 "cca",
                                 "swa_layers"};
constexpr std::array kNativeKeys{"moe_intermediate_size", "router_hidden_size", "layer_types",
                                 "rope_parameters"};

int64_t token_member(const json& root, const char* key, int64_t vocab, const std::string& where) {
  const auto found = root.find(key);
  if (found != root.end() && !found->is_null()) integer_member(root, key, where);  // no list
  const std::vector<int64_t> ids = token_members(root, key, vocab, where);
  return ids.empty() ? -1 : ids[0];
}

}  // namespace

int64_t size_member(const json& object, const char* key, const std::string& where) {
  const int64_t n = integer_member(object, key, where);
  // Far above any real model; keeps every count below in 64 bits.
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (n < 1 || n > kLargest) {
    throw data_error(fmt::format("{}: key \"{}\" is {}; 1 to 2147483648 is wanted", where, key, n));
  }
  return n;
}

int64_t layers_member(const json& object, const char* key, const std::string& where) {
  const int64_t n = size_member(object, key, where);
  constexpr int64_t kMost = 200'000;
  if (n > kMost) {
    throw data_error(fmt::format("{}: key \"{}\" is {}; 1 to {} is wanted", where, key, n, kMost));
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

bool has_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

void require_only(const json& root, const char* key, const json& known, const std::string& where) {
  const auto found = root.find(key);
  if (found == root.end() || *found == known) return;
  throw data_error(fmt::format("{}: key \"{}\" is {}; this program computes {} only", where, key,
                               printable(found->dump()), known.dump()));
}

void read_common(const json& root, const std::string& where, model::ModelConfig& config) {
  require_only(root, "attention_bias", false, where);
  require_only(root, "lm_head_bias", false, where);
  require_only(root, "attention_dropout", 0.0, where);
  require_only(root, "cca_time0", 2, where);
  require_only(root, "cca_time1", 2, where);
  require_only(root, "tie_word_embeddings", true, where);
  config.max_positions = size_member(root, "max_position_embeddings", where);
  if (has_member(root, "initializer_range")) {
    config.initializer_range = number_member(root, "initializer_range", where);
  }
  config.bos = token_member(root, "bos_token_id", config.vocab, where);
  config.further_eos = token_members(root, "eos_token_id", config.vocab, where);
  if (!config.further_eos.empty()) {
    config.eos = config.further_eos.front();
    config.further_eos.erase(config.further_eos.begin());
  }
  config.pad = token_member(root, "pad_token_id", config.vocab, where);
}

void require_valid(const model::ModelConfig& config, const model::GeometryKeys& keys,
                   const std::string& where) {
  try {
    config.validate(keys);
  } catch (const Error& error) {
    throw data_error(where + ": " + error.what());
  }
}

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

json id_or_null(int64_t id) { return id < 0 ? json(nullptr) : json(id); }

json ids_or_null(std::span<const int64_t> ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? json(ids[0]) : json(ids);
}

std::vector<int64_t> eos_of(const model::ModelConfig& config) {
  std::vector<int64_t> ids = config.further_eos;
  if (config.eos >= 0) ids.insert(ids.begin(), config.eos);
  return ids;
}

bool is_legacy_config(const json& root, const std::string& where) {
  const std::string type = string_member(root, "model_type", where);
  if (type != "zaya") {
    throw data_error(fmt::format("{}: key \"model_type\" is \"{}\"; \"zaya\" is wanted", where,
                                 printable(type)));
  }
  if (has_member(root, "quantization_config")) {
    throw data_error(where + ": key \"quantization_config\": quantised weights cannot be read");
  }
  const auto first_of = [&](const auto& keys) -> const char* {
    for (const char* key : keys) {
      if (root.contains(key)) return key;
    }
    return nullptr;
  };
  const char* legacy = first_of(kLegacyKeys);
  const char* native = first_of(kNativeKeys);
  if (legacy != nullptr && native != nullptr) {
    throw data_error(fmt::format(
        "{}: key \"{}\" belongs to the legacy layout of ZAYA1 and key \"{}\" to the native one; "
        "take away the one that does not belong to these weights",
        where, legacy, native));
  }
  return legacy != nullptr;
}

}  // namespace athanor::checkpoint
