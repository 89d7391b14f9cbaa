#include "data/jinja/template_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace athanor::data::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Cutter {
 public:
  explicit Cutter(std::string_view source) : source_(source) {
    if (source_.ends_with('\n')) source_.remove_suffix(1);
  }

  std::vector<Part> all() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      text_ += source_.substr(at_, tag - at_);
      at_ = tag;
      if (at_ < source_.size()) open_tag();
    }
    flush();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("{} at byte {}", what, at_));
  }
  bool next_is(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }

  size_t next_tag() const {
    for (size_t at = source_.find('{', at_); at < source_.size() - 1;
         at = source_.find('{', at + 1)) {
      if (std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos) return at;
    }
    return source_.size();
  }

  void open_tag() {
    const char kind = source_[at_ + 1];
    at_ += 2;
    if (take("-")) {
      text_.erase(text_.find_last_not_of(kBlanks) + 1);
    } else if (!take("+") && kind != '{') {
      // A block that stands alone in front of its line takes the blanks before it.
      const size_t last = text_.find_last_not_of(" \t");
      if (last == std::string::npos ? at_line_begin_ : text_[last] == '\n') text_.erase(last + 1);
    }
    flush();
    if (kind == '#') {
      at_ = source_.find("#}", at_);
      if (at_ == std::string_view::npos) {
        at_ = source_.size();
        fail("a comment without an end");
      }
      const bool bare = source_[at_ - 1] == '-';
      at_ += 2;
      return close_tag(bare, true);
    }
    Part part{kind == '{' ? Part::Kind::kOutput : Part::Kind::kStatement, "", {}};
    const std::string_view end = kind == '{' ? "}}" : "%}";
    bool bare = false;
    int open = 0;  // brackets: "}}" may close two of them
    while (true) {
      skip_blanks();
      if (at_ == source_.size()) fail("a tag without an end");
      if (open == 0 &&
          (next_is(end) || (next_is("-") && source_.substr(at_ + 1).starts_with(end)) ||
           (next_is("+") && source_.substr(at_ + 1).starts_with(end)))) {
        bare = take("-");
        const bool kept = take("+");
        take(end);
        part.tokens.emplace_back();
        parts_.push_back(std::move(part));
        return close_tag(bare, kind == '%' && !kept);
      }
      part.tokens.push_back(token());
      const Token& last = part.tokens.back();
      if (last.is("(") || last.is("[") || last.is("{")) ++open;
      if (last.is(")") || last.is("]") || last.is("}")) --open;
    }
  }

  void close_tag(bool bare, bool trims) {
    at_line_begin_ = false;
    if (bare) {
      at_ = std::min(source_.find_first_not_of(kBlanks, at_), source_.size());
      return;
    }
    if (trims && take("\n")) at_line_begin_ = true;
  }

  void flush() {
    if (!text_.empty()) parts_.push_back({Part::Kind::kText, std::exchange(text_, {}), {}});
  }

  void skip_blanks() { at_ = std::min(source_.find_first_not_of(kBlanks, at_), source_.size()); }

  Token token() {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return string();
    size_t end = at_;
    if (is_letter(c)) {
      while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
      return taken(Token::Kind::kName, end);
    }
    if (is_digit(c)) {
      while (end < source_.size() && is_digit(source_[end])) ++end;
      if (end - at_ > 9) fail("a number as large as this");
      if (c == '0' && end - at_ > 1) fail("a number that begins with a zero");
      return taken(Token::Kind::kInteger, end);
    }
    for (const std::string_view symbol : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (next_is(symbol)) return taken(Token::Kind::kSymbol, at_ + 2);
    }
    if (std::string_view("+-*/%~|.,:()[]{}<>=").find(c) == std::string_view::npos) {
      fail(fmt::format("the character {:?}", c));
    }
    return taken(Token::Kind::kSymbol, at_ + 1);
  }
  Token taken(Token::Kind kind, size_t end) {
    Token token{kind, std::string(source_.substr(at_, end - at_))};
    at_ = end;
    return token;
  }
  Token string() {
    const char quote = source_[at_++];
    Token token{Token::Kind::kString, ""};
    while (true) {
      if (at_ == source_.size()) fail("a string without an end");
      const char c = source_[at_++];
      if (c == quote) return token;
      if (c != '\\') {
        token.text += c;
        continue;
      }
      if (at_ == source_.size()) fail("a string without an end");
      static constexpr std::array<std::pair<char, char>, 6> kEscapes = {
          {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'}}};
      const char escaped = source_[at_++];
      const auto* known = std::find_if(kEscapes.begin(), kEscapes.end(),
                                       [&](const auto& one) { return one.first == escaped; });
      if (known == kEscapes.end()) fail(fmt::format("the escape \\{}", escaped));
      token.text += known->second;
    }
  }

  std::string_view source_;
  size_t at_ = 0;
  bool at_line_begin_ = true;  // where text_ begins
  std::string text_;
  std::vector<Part> parts_;
};

}  // namespace

std::vector<Part> template_parts(std::string_view source) { return Cutter(source).all(); }

}  // namespace athanor::data::jinja
