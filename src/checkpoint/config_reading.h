// The members of a config.json, read strictly: what both layouts' readers share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"

namespace athanor::checkpoint {

/// A size from 1 to 2^31, so that counts stay within 64 bits.
int64_t size_member(const nlohmann::json& object, const char* key, const std::string& where);
/// A number of layers: where nothing but it says how many there are, it must not be absurd.
int64_t layers_member(const nlohmann::json& object, const char* key, const std::string& where);
double number_member(const nlohmann::json& object, const char* key, const std::string& where);
double positive_member(const nlohmann::json& object, const char* key, const std::string& where);
/// True when `object` has the key with a value other than null.
bool has_member(const nlohmann::json& object, const char* key);
/// The value of an optional key must be the one that the equations know.
void require_only(const nlohmann::json& root, const char* key, const nlohmann::json& known,
                  const std::string& where);
/// What both layouts say under the same keys: activations, ties, biases, the ids of the special tokens, max_positions and
/// initializer_range. `config.vocab` must be set.
void read_common(const nlohmann::json& root, const std::string& where, model::ModelConfig& config);
/// Throws kData naming `where` for a geometry that the equations exclude; `keys` are the file's.
void require_valid(const model::ModelConfig& config, const model::GeometryKeys& keys,
                   const std::string& where);
/// The token ids under `key`, one or a list of them, each once; none where it is absent or null.
std::vector<int64_t> token_members(const nlohmann::json& root, const char* key, int64_t vocab,
                                   const std::string& where);
/// An id, or null for none (−1).
nlohmann::json id_or_null(int64_t id);
/// As they are read: null, a number, or a list of several.
nlohmann::json ids_or_null(std::span<const int64_t> ids);
/// The ids of eos_token_id.
std::vector<int64_t> eos_of(const model::ModelConfig& config);

/// The geometry in the config.json of a legacy model, whatever version wrote it (zaya1.md §5.2).
model::ModelConfig parse_legacy_config(const nlohmann::json& root, const std::string& where);
/// Throws kData where the two layouts contradict each other, or where `root` holds keys of both.
bool is_legacy_config(const nlohmann::json& root, const std::string& where);

}  // namespace athanor::checkpoint
