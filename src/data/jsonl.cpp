#include "data/jsonl.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "data/utf8.h"

namespace athanor::data {
namespace {

using Json = nlohmann::json;
constexpr size_t kLongestDetail = 160;  // it quotes what was read, which may be the whole line

/// Keeps what the top level's key `text` holds and lets everything else pass.
class TextFinder : public nlohmann::json_sax<Json> {
 public:
  explicit TextFinder(std::string& text) : text_(text) {}

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }
  bool binary(binary_t&) override { return scalar("binary"); }
  bool string(string_t& value) override {
    if (wanted()) {
      text_ = std::move(value);
      found_ = "a string";
      wanted_key_ = false;
    } else if (depth_ == 0) {
      top_ = "a string";
    }
    return true;
  }
  bool start_object(std::size_t) override { return open("an object"); }
  bool start_array(std::size_t) override { return open("an array"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    wanted_key_ = name == "text";
    if (wanted_key_ && found_ != nullptr) error_ = "key \"text\" occurs twice; which one is meant?";
    return error_.empty();
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // what() is "[json.exception.parse_error.101] parse error at line 1, column 5: <detail>".
    std::string_view detail = error.what();
    const size_t colon = detail.find(": ");
    if (colon != std::string_view::npos) detail.remove_prefix(colon + 2);
    detail = detail.substr(0, kLongestDetail);
    detail = detail.substr(0, valid_utf8_prefix(detail));
    error_ = fmt::format("not valid JSON at byte {}: {}", position, detail);
    return false;
  }

  /// What is wrong with the line as a whole; empty when its text was found.
  std::string verdict() const {
    if (!error_.empty()) return error_;
    if (top_ != nullptr) return fmt::format("a JSON object is wanted here, not {}", top_);
    if (found_ == nullptr) return "the object has no key \"text\"";
    if (std::string_view(found_) != "a string") {
      return fmt::format("\"text\" is {}; a string is wanted", found_);
    }
    return {};
  }

 private:
  bool wanted() const { return depth_ == 1 && wanted_key_; }
  bool scalar(const char* what) {
    if (wanted()) {
      found_ = what;
      wanted_key_ = false;
    } else if (depth_ == 0) {
      top_ = what;
    }
    return true;
  }
  bool open(const char* what) {
    if (depth_ == 0 && what != std::string_view("an object")) top_ = what;
    if (wanted()) {
      found_ = what;
      wanted_key_ = false;
    }
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::string& text_;
  std::string error_;
  const char* top_ = nullptr;    // what the line is, when it is no object
  const char* found_ = nullptr;  // what `text` is
  bool wanted_key_ = false;
  size_t depth_ = 0;
};

}  // namespace

std::string text_of_json_line(std::string_view line, std::string& text) {
  text.clear();
  const size_t valid = valid_utf8_prefix(line);
  if (valid != line.size()) return fmt::format("not UTF-8 at byte {} of the line", valid + 1);
  if (line.starts_with("\xEF\xBB\xBF")) return "a byte order mark inside the file";
  TextFinder finder(text);
  Json::sax_parse(line.begin(), line.end(), &finder);
  return finder.verdict();
}

bool is_blank_json_line(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace athanor::data
