#include "data/jinja/template.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <stdexcept>

#include "data/jinja/expression.h"

namespace athanor::data::jinja {
namespace {

constexpr int64_t kMostSteps =
    1'000'000;  // parts passed through: far beyond what a template for people takes
constexpr size_t kMostBytes = size_t{1} << 26;  // of a value or of what is written
constexpr int kDeepest = 100;                   // of blocks in blocks

class Renderer {
 public:
  Renderer(std::span<const Part> parts, const Map& names) : parts_(parts) {
    scopes_.push_back(names);
  }

  std::string all() {
    run(0, parts_.size());
    return std::move(out_);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw std::invalid_argument(what); }
  /// The word that a statement begins with; empty for other parts.
  std::string_view word(size_t at) const {
    const Part& part = parts_[at];
    return part.kind == Part::Kind::kStatement && part.tokens[0].kind == Token::Kind::kName
               ? std::string_view(part.tokens[0].text)
               : std::string_view();
  }

  Value value_of(std::span<const Token> tokens) {
    Value value = evaluate(tokens, [this](const std::string& name) {
      for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (const auto found = scope->find(name); found != scope->end()) return found->second;
      }
      return Value();
    });
    if (value.text() != nullptr && value.text()->size() > kMostBytes)
      fail("a text as long as this");
    return value;
  }

  void run(size_t begin, size_t end) {
    if (++depth_ > kDeepest) fail("blocks nested as deep as this");
    for (size_t at = begin; at < end;) {
      if (++steps_ > kMostSteps) fail("as many steps as this");
      const Part& part = parts_[at];
      if (part.kind == Part::Kind::kText) {
        write(part.text);
        ++at;
      } else if (part.kind == Part::Kind::kOutput) {
        write(value_of(part.tokens).written());
        ++at;
      } else {
        at = statement(at, end);
      }
    }
    --depth_;
  }
  void write(const std::string& text) {
    if (out_.size() + text.size() > kMostBytes) fail("a text as long as this");
    out_ += text;
  }

  /// Runs a statement and the block that it opens; where to go on.
  size_t statement(size_t at, size_t end) {
    const std::span<const Token> tokens = parts_[at].tokens;
    const std::string_view name = word(at);
    if (name == "if") return branches(at, end);
    if (name == "for") return loop(at, end);
    if (name == "set") {
      set(tokens.subspan(1));
      return at + 1;
    }
    if (name == "generation" || name == "endgeneration") return at + 1;  // marks, for training
    fail(fmt::format("the statement '{}'", tokens[0].text));
  }

  /// The next of the block's own statements with one of these words behind `at`.
  size_t next_own(size_t at, size_t end, std::initializer_list<std::string_view> words) const {
    int open = 0;
    for (size_t i = at + 1; i < end; ++i) {
      const std::string_view name = word(i);
      if (open == 0) {
        for (const std::string_view wanted : words) {
          if (name == wanted) return i;
        }
      }
      if (name == "if" || name == "for" || name == "macro" || name == "call" || name == "filter") {
        ++open;
      }
      if (name == "endif" || name == "endfor" || name == "endmacro" || name == "endcall" ||
          name == "endfilter") {
        --open;
      }
    }
    fail(fmt::format("a block '{}' without an end", word(at)));
  }

  size_t branches(size_t at, size_t end) {
    bool done = false;
    while (true) {
      const size_t next = next_own(at, end, {"elif", "else", "endif"});
      if (!done) {
        const auto tokens = std::span<const Token>(parts_[at].tokens).subspan(1);
        done = word(at) == "else" || value_of(tokens).truth();
        if (done) run(at + 1, next);
      }
      if (word(next) == "endif") return next + 1;
      at = next;
    }
  }

  size_t loop(size_t at, size_t end) {
    const std::span<const Token> tokens = parts_[at].tokens;
    const size_t last = next_own(at, end, {"endfor", "else"});
    if (word(last) == "else") fail("an else of a for");
    if (tokens.size() < 5 || tokens[1].kind != Token::Kind::kName || !tokens[2].is_name("in")) {
      fail("a for that is not 'for NAME in LIST'");
    }
    const Value values = value_of(tokens.subspan(3));
    if (values.list() == nullptr) fail("a for over what is no list");
    const List list = *values.list();
    const auto count = static_cast<int64_t>(list.size());
    for (int64_t i = 0; i < count; ++i) {
      scopes_.push_back({{tokens[1].text, list[static_cast<size_t>(i)]},
                         {"loop", Map{{"index", i + 1},
                                      {"index0", i},
                                      {"first", i == 0},
                                      {"last", i + 1 == count},
                                      {"length", count}}}});
      run(at + 1, last);
      scopes_.pop_back();
    }
    return last + 1;
  }

  void set(std::span<const Token> tokens) {
    if (tokens[0].kind != Token::Kind::kName) fail("a set of what is no name");
    if (tokens.size() > 2 && tokens[1].is("=")) {
      scopes_.back()[tokens[0].text] = value_of(tokens.subspan(2));
      return;
    }
    if (tokens.size() > 4 && tokens[1].is(".") && tokens[2].kind == Token::Kind::kName &&
        tokens[3].is("=")) {
      const Value space = value_of(std::vector{tokens[0], Token{}});
      if (space.map() == nullptr) fail(fmt::format("a set in '{}'", tokens[0].text));
      (*space.map())[tokens[2].text] = value_of(tokens.subspan(4));
      return;
    }
    fail("a set that is not 'set NAME = VALUE'");
  }

  std::span<const Part> parts_;
  std::vector<Map> scopes_;
  std::string out_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

Template::Template(std::string_view source) : parts_(template_parts(source)) {}

std::string Template::render(const Map& names) const { return Renderer(parts_, names).all(); }

}  // namespace athanor::data::jinja
