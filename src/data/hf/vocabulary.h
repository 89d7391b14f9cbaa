// The tokens of a tokenizer.json by id: the model's and the added ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/hf/added_tokens.h"
#include "data/hf/json_fields.h"

namespace athanor::data::hf {

/// Ids 0 … size − 1 without a hole, each with one token.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, int32_t> model_ids;  ///< of the model's tokens
  std::vector<AddedToken> added;                       ///< in the order of the file
  std::vector<bool> special;                           ///< by id

  /// The id of a model's token; −1 when there is none.
  int32_t model_id(const std::string& token) const {
    const auto found = model_ids.find(token);
    return found == model_ids.end() ? -1 : found->second;
  }
  /// The id of any token.
  int32_t id_of(const std::string& token) const;
};

/// Reads `added_tokens` and takes the entries of model.vocab, whose strings are moved. Refuses ids that two tokens share,
/// that are missing, negative or no numbers, and added tokens that are empty, contradict the model's vocabulary, or have other
/// ids than those behind it in their order: the reference would give them these, whatever the file says.
Vocabulary read_vocabulary(const Field& root, TokenizerJson& json, const std::string& file);

}  // namespace athanor::data::hf
