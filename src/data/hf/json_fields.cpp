#include "data/hf/json_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kDeepest = 64;  // of nesting; real files have 7 levels
constexpr size_t kLongestQuote = 60;

using Json = nlohmann::json;

/// Builds the root and, apart from it, the two tables: as ordinary values these would be half a million small objects.
class TokenizerSax : public nlohmann::json_sax<Json> {
 public:
  TokenizerSax(TokenizerJson& out, const std::string& file) : out_(out), file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return number_value(number, number); }
  bool number_unsigned(number_unsigned_t number) override {
    constexpr auto kMost = static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return number_value(number, static_cast<int64_t>(std::min(number, kMost)));
  }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override {
    if (table_ == Table::kMerges) return merge_part(std::move(text));
    return value(std::move(text));
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override {
    deeper();
    if (at_model("vocab")) {
      if (out_.has_vocab) throw wrong("model.vocab is there twice");
      out_.has_vocab = true;
      table_ = Table::kVocab;
      return true;
    }
    if (table_ != Table::kNone) throw wrong_entry("an object");
    open(Json::object());
    return true;
  }
  bool key(string_t& name) override {
    if (table_ == Table::kVocab) {
      token_ = std::move(name);
      return true;
    }
    key_ = std::move(name);
    if (open_.size() == 1) section_ = key_;
    if (open_.back()->contains(key_)) {
      throw wrong(fmt::format("the key {} is there twice", shown(key_)));
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    if (table_ == Table::kVocab) {
      table_ = Table::kNone;
    } else {
      open_.pop_back();
    }
    return true;
  }
  bool start_array(size_t) override {
    deeper();
    if (at_model("merges")) {
      if (out_.has_merges) throw wrong("model.merges is there twice");
      out_.has_merges = true;
      table_ = Table::kMerges;
      return true;
    }
    if (table_ == Table::kMerges && !in_pair_) {
      in_pair_ = true;
      parts_ = 0;
      out_.merges.emplace_back();
      return true;
    }
    if (table_ != Table::kNone) throw wrong_entry("an array");
    open(Json::array());
    return true;
  }
  bool end_array() override {
    --depth_;
    if (in_pair_) {
      if (parts_ != 2) throw wrong_entry(fmt::format("{} parts", parts_));
      in_pair_ = false;
    } else if (table_ == Table::kMerges) {
      table_ = Table::kNone;
    } else {
      open_.pop_back();
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw wrong(fmt::format("not valid JSON at byte {}", position == 0 ? 0 : position - 1));
  }

 private:
  enum class Table : uint8_t { kNone, kVocab, kMerges };

  bool at_model(const char* name) const {
    return open_.size() == 2 && section_ == "model" && key_ == name && open_.back()->is_object() &&
           table_ == Table::kNone;
  }
  void deeper() {
    if (++depth_ > kDeepest) throw wrong("nested too deep for a tokenizer");
  }
  Json& place(Json value) {
    if (open_.empty()) return out_.root = std::move(value);
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return open_.back()->back();
    }
    return (*open_.back())[key_] = std::move(value);
  }
  void open(Json container) { open_.push_back(&place(std::move(container))); }
  bool value(Json json) {
    if (table_ != Table::kNone) throw wrong_entry(json.type_name());
    place(std::move(json));
    return true;
  }
  bool number_value(Json json, int64_t number) {
    if (table_ != Table::kVocab) return value(std::move(json));
    out_.vocab.emplace_back(std::move(token_), number);
    return true;
  }
  bool merge_part(std::string text) {
    if (in_pair_) {
      if (parts_ < 2)
        (parts_ == 0 ? out_.merges.back().first : out_.merges.back().second) = std::move(text);
      ++parts_;
      return true;
    }
    // The older spelling: one text, the parts apart by a space.
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      throw wrong(
          fmt::format("model.merges[{}], {}, is not two tokens", out_.merges.size(), shown(text)));
    }
    out_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }
  Error wrong(const std::string& why) const { return data_error(file_ + ": " + why); }
  Error wrong_entry(const std::string& found) const {
    if (table_ == Table::kVocab) {
      return wrong(fmt::format("model.vocab: the id of {} is {}", shown(token_), found));
    }
    const size_t entry = out_.merges.size() - (in_pair_ ? 1 : 0);
    return wrong(fmt::format("model.merges[{}] holds {} and is not two tokens", entry, found));
  }

  TokenizerJson& out_;
  const std::string& file_;
  std::vector<Json*> open_;
  std::string key_, section_, token_;
  Table table_ = Table::kNone;
  bool in_pair_ = false;
  size_t parts_ = 0;
  size_t depth_ = 0;
};

}  // namespace

std::string shown(std::string_view text) {
  std::string begin(text.substr(0, kLongestQuote));
  std::string out = Json(begin).dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongestQuote) out += "…";
  return out;
}

Field Field::at(const char* key) const {
  const std::optional<Field> field = find(key);
  if (!field) throw refusal(fmt::format("has no {}", key));
  return *field;
}

std::optional<Field> Field::find(const char* key) const {
  if (!value_->is_object()) throw refusal("is not an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return Field(*found, *file_, place_.empty() ? key : place_ + "." + key);
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) throw refusal("is not an array");
  std::vector<Field> items;
  for (size_t i = 0; i < value_->size(); ++i) {
    items.emplace_back((*value_)[i], *file_, fmt::format("{}[{}]", place_, i));
  }
  return items;
}

std::string Field::text() const {
  if (!value_->is_string()) throw refusal("is not a text");
  return value_->get<std::string>();
}

int64_t Field::integer() const {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value_->is_number_integer() ||
      (value_->is_number_unsigned() && value_->get<uint64_t>() > kMost)) {
    throw refusal("is not a whole number");
  }
  return value_->get<int64_t>();
}

bool Field::flag() const {
  if (!value_->is_boolean()) throw refusal("is neither true nor false");
  return value_->get<bool>();
}

bool Field::flag_or(const char* key, bool otherwise) const {
  const std::optional<Field> field = find(key);
  return field ? field->flag() : otherwise;
}

char32_t Field::character() const {
  const std::string content = text();
  if (content.empty() || first_character(content).bytes != content.size()) {
    throw refusal("is not one character");
  }
  return first_character(content).code;
}

std::string Field::type() const {
  const std::optional<Field> type = find("type");
  return type ? type->text() : "";
}

void Field::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw refusal(fmt::format("has a key that is not known: {}", shown(key)));
    }
  }
}

Error Field::refusal(const std::string& why) const {
  return data_error(fmt::format("{}: {} {}", *file_, place_.empty() ? "the file" : place_, why));
}

TokenizerJson parse_tokenizer_json(std::string_view content, const std::string& file) {
  TokenizerJson json;
  TokenizerSax sax(json, file);
  Json::sax_parse(content, &sax);
  if (!json.root.is_object()) throw data_error(file + ": a JSON file, but not an object");
  return json;
}

}  // namespace athanor::data::hf
