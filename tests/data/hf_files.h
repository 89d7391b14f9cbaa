// Small tokenizer.json files for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/hf/byte_level.h"
#include "data/hf/tokenizer.h"

namespace athanor::data {

using Json = nlohmann::ordered_json;

/// A byte-level BPE: 256 bytes, then what these merges (pairs of tokens) make.
inline Json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[hf::byte_characters()[byte]] = byte;
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    list.push_back({left, right});
  }
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor", nullptr},
          {"decoder", level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

/// A BPE of characters: these tokens, and what the merges make.
inline Json character_json(const std::vector<std::string>& tokens,
                           const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (const std::string& token : tokens) vocab[token] = vocab.size();
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    list.push_back({left, right});
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline Json added_token(int id, const std::string& content, bool special = false) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline std::unique_ptr<Tokenizer> make_hf(const Json& json) {
  return make_hf_tokenizer({{"tokenizer.json", json.dump()}}, "t.json");
}

}  // namespace athanor::data
