// A tokenizer.json as values that know where they stand, so that every refusal names the file and the place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace athanor::data::hf {

/// A value in a JSON file. The value and the file's name must outlive it.
class Field {
 public:
  Field(const nlohmann::json& value, const std::string& file, std::string place)
      : value_(&value), file_(&file), place_(std::move(place)) {}

  /// The value of `key`; refused when absent or null.
  Field at(const char* key) const;
  /// The value of `key`; nothing when absent or null.
  std::optional<Field> find(const char* key) const;
  std::vector<Field> items() const;
  std::string text() const;
  int64_t integer() const;
  bool flag() const;
  bool flag_or(const char* key, bool otherwise) const;
  /// A text of exactly one character.
  char32_t character() const;
  /// The `type` of a component; empty when it has none.
  std::string type() const;
  /// Refuses keys that are not among these: they would change what the component does.
  void only(std::initializer_list<std::string_view> keys) const;

  /// data_error "FILE: PLACE WHY".
  [[nodiscard]] Error refusal(const std::string& why) const;
  const std::string& place() const { return place_; }
  const nlohmann::json& value() const { return *value_; }

 private:
  const nlohmann::json* value_;
  const std::string* file_;
  std::string place_;
};

/// A file's JSON, with the two large tables of its model apart.
struct TokenizerJson {
  nlohmann::json root;  ///< without model.vocab (where it is an object) and model.merges
  std::vector<std::pair<std::string, int64_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  bool has_vocab = false;
  bool has_merges = false;
};

/// Parses the content of `file`. data_error with the byte where it is not JSON, or naming what in the two tables is of a
/// wrong type.
TokenizerJson parse_tokenizer_json(std::string_view content, const std::string& file);

/// A short, printable form of foreign text, for messages.
std::string shown(std::string_view text);

}  // namespace athanor::data::hf
