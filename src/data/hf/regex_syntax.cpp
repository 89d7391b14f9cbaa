#include "data/hf/regex_syntax.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "data/hf/regex_classes.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kDeepest = 200;      // of groups
constexpr size_t kLongest = 1 << 16;  // bytes of a translated pattern; PCRE2 has a limit near that
constexpr int64_t kMostRepeats = 1000;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

std::string spelled(char32_t c) {
  return c < 0x80 && (is_ascii_letter(static_cast<char>(c)) || is_ascii_digit(static_cast<char>(c)))
             ? std::string(1, static_cast<char>(c))
             : fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c));
}

class Translator {
 public:
  explicit Translator(std::string_view regex) : regex_(regex) {}

  std::string all() {
    // An option in front holds for all that follows, alternatives too; elsewhere it would be a hidden group.
    if (take("(?i)")) {
      caseless_ = true;
      out_ = "(?i)";
    }
    while (!ended()) {
      item();
      if (out_.size() > kLongest) fail("a pattern as long as this");
    }
    if (!groups_.empty()) fail("a group without an end");
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin;   // in out_
    bool caseless;  // outside of it
  };

  bool ended() const { return at_ == regex_.size(); }
  bool next_is(std::string_view text) const { return regex_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    if (ended()) fail("an end in the middle");
    const Character c = first_character(regex_.substr(at_));
    at_ += c.bytes;
    return c.code;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("{} at byte {}", what, at_));
  }

  /// One atom, group border, or quantifier.
  void item() {
    if (take("(")) return open_group();
    if (take(")")) return close_group();
    if (take("|")) {
      out_ += '|';
      atom_ = std::nullopt;
      last_literal_ = 0;
      return;
    }
    if (next_is("*") || next_is("+") || next_is("?")) return quantifier();
    if (next_is("{") && interval()) return;
    begin_atom();
    if (take("[")) return bracket();
    if (take("\\")) return escape();
    if (take(".")) {
      out_ += dot_all_.empty() || !dot_all_.back() ? "[^\\n]" : "(?s:.)";
      return;
    }
    if (take("^")) return assertion("^");
    if (take("$")) return assertion("$");
    literal(take_character());
  }

  void begin_atom() {
    atom_ = out_.size();
    if (!next_is_literal()) last_literal_ = 0;
  }
  bool next_is_literal() const {
    return !ended() && std::string_view("[\\.^$").find(regex_[at_]) == std::string_view::npos;
  }
  void assertion(std::string_view text) {
    out_ += text;
    atom_ = std::nullopt;
  }
  void literal(char32_t c) {
    if (caseless_) {
      // Oniguruma also takes ß for "ss" and the like, which PCRE2 does not.
      static constexpr std::string_view kLigatures[] = {"ss", "ff", "fi", "fl", "st"};
      if (c >= 0x80) fail("a character beyond ASCII where case does not count");
      const char small = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      for (const std::string_view pair : kLigatures) {
        if (last_literal_ == pair[0] && small == pair[1]) {
          fail(fmt::format("\"{}\" where case does not count", pair));
        }
      }
      last_literal_ = small;
    }
    out_ += spelled(c);
  }

  void open_group() {
    if (groups_.size() == kDeepest) fail("groups nested as deep as this");
    groups_.push_back({out_.size(), caseless_});
    dot_all_.push_back(!dot_all_.empty() && dot_all_.back());
    atom_ = std::nullopt;
    last_literal_ = 0;
    if (!take("?")) {
      out_ += "(?:";  // nothing refers back to a group
      return;
    }
    for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (take(kind)) {
        out_ += fmt::format("(?{}", kind);
        return;
      }
    }
    bool off = false;
    while (!take(":")) {
      if (take("-")) {
        off = true;
      } else if (take("i")) {
        caseless_ = !off;
      } else if (take("m")) {
        dot_all_.back() = !off;
      } else {
        fail(fmt::format("the group (?{}", regex_.substr(at_, 1)));
      }
    }
    out_ += caseless_ ? "(?i:" : "(?-i:";
  }
  void close_group() {
    if (groups_.empty()) fail("a ) without (");
    out_ += ')';
    atom_ = groups_.back().begin;
    caseless_ = groups_.back().caseless;
    groups_.pop_back();
    dot_all_.pop_back();
    last_literal_ = 0;
  }

  void require_atom() {
    if (!atom_) fail("a repetition of nothing");
    last_literal_ = 0;
  }
  void quantifier() {
    require_atom();
    out_ += static_cast<char>(take_character());
    if (take("?")) {
      out_ += '?';
    } else if (take("+")) {
      out_ += '+';
    }
    wrap();
  }
  /// {n}, {n,}, {,m}, {n,m}; false when the brace is a plain character.
  bool interval() {
    size_t i = at_ + 1;
    const auto number = [&]() -> int64_t {
      int64_t value = -1;
      while (i < regex_.size() && is_ascii_digit(regex_[i])) {
        value = (value < 0 ? 0 : value * 10) + (regex_[i++] - '0');
        if (value > kMostRepeats) fail("a repetition as often as this");
      }
      return value;
    };
    const int64_t least = number();
    int64_t most = least;
    const bool comma = i < regex_.size() && regex_[i] == ',';
    if (comma) {
      ++i;
      most = number();
    }
    if (i >= regex_.size() || regex_[i] != '}' || (least < 0 && most < 0)) return false;
    require_atom();
    at_ = i + 1;
    if (most >= 0 && least > most) fail("a repetition whose bounds are the wrong way round");
    out_ += fmt::format("{{{},", std::max<int64_t>(least, 0));
    if (most >= 0) out_ += std::to_string(most);
    out_ += '}';
    if (comma && take("?")) out_ += '?';
    wrap();  // a + or ? behind it repeats the repetition: only PCRE2 reads it as one quantifier
    return true;
  }
  /// Makes the quantified atom one that can be quantified again.
  void wrap() {
    if (!(next_is("*") || next_is("+") || next_is("?") || next_is("{"))) return;
    out_.insert(*atom_, "(?:");
    out_ += ')';
  }

  /// A named class where an atom may stand.
  void named_class(std::string_view name, bool negated) {
    out_ += fmt::format("[{}{}]", negated ? "^" : "", members(name, false));
  }
  std::string members(std::string_view name, bool negated) const {
    if (caseless_) fail("a class of characters where case does not count");
    const std::optional<std::string> members = class_of(name, negated);
    if (!members) fail(fmt::format("the class \"{}\", which is not known,", name));
    return *members;
  }
  /// The name in \p{…}, and whether ^ is in front of it.
  std::string_view property(bool& negated) {
    if (!take("{")) fail("a \\p without {");
    if (take("^")) negated = !negated;
    const size_t end = regex_.find('}', at_);
    if (end == std::string_view::npos) fail("a \\p without }");
    const std::string_view name = regex_.substr(at_, end - at_);
    if (name.empty() || (name.size() == 1 && name[0] >= 'a')) fail("a property without a name");
    at_ = end + 1;
    return name;
  }
  /// The character of an escape that means one; nothing for a class or an assertion.
  std::optional<char32_t> escaped_character(char32_t c) {
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'x':
        return take("{") ? hexadecimal(1, 8, true) : hexadecimal(1, 2, false);
      case 'u':
        return hexadecimal(4, 4, false);
      default:
        break;
    }
    if (c < 0x80 &&
        (is_ascii_letter(static_cast<char>(c)) || is_ascii_digit(static_cast<char>(c)))) {
      return std::nullopt;
    }
    return c;
  }
  char32_t hexadecimal(size_t least, size_t most, bool brace) {
    char32_t value = 0;
    size_t digits = 0;
    for (; digits < most && !ended(); ++digits, ++at_) {
      const char c = regex_[at_];
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!letter && !is_ascii_digit(c)) break;
      value = value << 4 | static_cast<char32_t>(letter ? (c | 32) - 'a' + 10 : c - '0');
    }
    if (digits < least || (brace && !take("}"))) fail("a broken number of a character");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ||
        (!brace && most == 2 && value > 0x7F)) {
      fail("a number of no character");
    }
    return value;
  }

  void escape() {
    const char32_t c = take_character();
    if (const auto character = escaped_character(c)) return literal(*character);
    switch (c) {
      case 'p':
      case 'P': {
        bool negated = c == 'P';
        const std::string_view name = property(negated);
        return named_class(name, negated);
      }
      case 's':
      case 'd':
      case 'w':
      case 'h':
        return named_class(std::string(1, static_cast<char>(c)), false);
      case 'S':
      case 'D':
      case 'W':
      case 'H':
        return named_class(std::string(1, static_cast<char>(c | 32)), true);
      case 'b':
      case 'B': {
        const std::string word = fmt::format("[{}]", members("w", false));
        const char* form = c == 'b' ? "(?:(?<={0})(?!{0})|(?<!{0})(?={0}))"
                                    : "(?:(?<={0})(?={0})|(?<!{0})(?!{0}))";
        return assertion(fmt::format(fmt::runtime(form), word));
      }
      case 'A':
        return assertion("\\A");
      case 'z':
        return assertion("\\z");
      case 'Z':
        return assertion("\\Z");
      default:
        fail(fmt::format("the escape \\{}, which is not known,", static_cast<char>(c)));
    }
  }

  /// The rest of a bracketed class.
  void bracket() {
    std::string content;
    const bool negated = take("^");
    if (next_is("]")) fail("an empty class");
    while (!take("]")) {
      if (next_is("[") || next_is("&&")) fail("a class in a class");
      std::optional<char32_t> first = bracket_character(content);
      if (!first) continue;
      if (next_is("-") && !next_is("-]")) {
        take("-");
        if (next_is("[")) fail("a class in a class");
        const std::optional<char32_t> last = bracket_character(content);
        if (!last || *last < *first) fail("a range without an end");
        if (caseless_ && *last >= 0x80) fail("a character beyond ASCII where case does not count");
        content += spelled(*first) + "-" + spelled(*last);
      } else {
        if (caseless_ && *first >= 0x80) fail("a character beyond ASCII where case does not count");
        content += spelled(*first);
      }
    }
    out_ += fmt::format("[{}{}]", negated ? "^" : "", content);
  }
  /// The next character of a bracket; nothing when a class stands there, which goes to `content`.
  std::optional<char32_t> bracket_character(std::string& content) {
    const char32_t c = take_character();
    if (c != '\\') return c;
    const char32_t kind = take_character();
    if (kind == 'b') return '\b';
    if (const auto character = escaped_character(kind)) return character;
    if (kind == 'p' || kind == 'P') {
      bool negated = kind == 'P';
      const std::string_view name = property(negated);
      content += members(name, negated);
    } else if (std::u32string_view(U"sdwhSDWH").find(kind) != std::u32string_view::npos) {
      const char small = static_cast<char>(kind | 32);
      content += members(small == 'w' ? "[w]" : std::string(1, small), kind < 'a');
    } else {
      fail(fmt::format("the escape \\{} in a class, which is not known,", static_cast<char>(kind)));
    }
    return std::nullopt;
  }

  std::string_view regex_;
  size_t at_ = 0;
  std::string out_;
  std::optional<size_t> atom_;  // where in out_ the atom begins that a quantifier would repeat
  std::vector<Group> groups_;
  std::vector<bool> dot_all_;
  bool caseless_ = false;
  char last_literal_ = 0;
};

}  // namespace

std::string translate_regex(std::string_view regex) { return Translator(regex).all(); }

}  // namespace athanor::data::hf
