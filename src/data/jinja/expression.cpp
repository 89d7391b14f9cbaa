#include "data/jinja/expression.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "data/jinja/operations.h"

namespace athanor::data::jinja {
namespace {

constexpr int kDeepest = 100;  // of brackets

/// Reads an expression and computes it on the way; with `live_` false it only reads.
class Evaluator {
 public:
  Evaluator(std::span<const Token> tokens, Lookup lookup) : tokens_(tokens), lookup_(lookup) {}

  Value all() {
    Value value = conditional();
    if (token().kind != Token::Kind::kEnd) unknown();
    return value;
  }

 private:
  const Token& token() const { return tokens_[at_]; }
  bool take(std::string_view symbol) {
    if (!token().is(symbol)) return false;
    ++at_;
    return true;
  }
  bool take_name(std::string_view name) {
    if (!token().is_name(name)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view symbol) {
    if (!take(symbol)) unknown();
  }
  std::string name() {
    if (token().kind != Token::Kind::kName) unknown();
    return tokens_[at_++].text;
  }
  [[noreturn]] void unknown() const {
    if (token().kind == Token::Kind::kEnd)
      throw std::invalid_argument("an expression that ends early");
    throw std::invalid_argument(fmt::format("'{}' where it is not known", token().text));
  }

  /// Reads what does not count.
  template <class Read>
  void pass_over(Read read) {
    const bool live = std::exchange(live_, false);
    read();
    live_ = live;
  }

  // x if c else y: the condition stands behind the value that it decides about.
  Value conditional() {
    if (++depth_ > kDeepest) throw std::invalid_argument("brackets nested as deep as this");
    Value value;
    if (!live_ || !condition_follows()) {
      value = disjunction();
      if (!live_ && take_name("if")) {
        disjunction();
        if (take_name("else")) conditional();
      }
    } else {
      const size_t begin = at_;
      pass_over([&] { disjunction(); });
      if (!take_name("if")) unknown();
      const bool holds = disjunction().truth();
      if (holds) {
        const size_t behind = std::exchange(at_, begin);
        value = disjunction();
        at_ = behind;
      }
      if (take_name("else")) {
        if (holds) {
          pass_over([&] { conditional(); });
        } else {
          value = conditional();
        }
      }
    }
    --depth_;
    return value;
  }
  /// True when an `if` belongs to the value that begins here.
  bool condition_follows() const {
    int open = 0;
    for (size_t i = at_; tokens_[i].kind != Token::Kind::kEnd; ++i) {
      const Token& one = tokens_[i];
      if (one.is("(") || one.is("[")) ++open;
      if ((one.is(")") || one.is("]")) && --open < 0) return false;
      if (open == 0 && (one.is(",") || one.is(":"))) return false;
      if (open == 0 && one.is_name("if")) return true;
    }
    return false;
  }
  Value disjunction() {
    Value value = conjunction();
    while (take_name("or")) {
      if (value.truth()) {
        pass_over([&] { conjunction(); });
      } else {
        value = conjunction();
      }
    }
    return value;
  }
  Value conjunction() {
    Value value = negation();
    while (take_name("and")) {
      if (value.truth()) {
        value = negation();
      } else {
        pass_over([&] { negation(); });
      }
    }
    return value;
  }
  Value negation() {
    bool negated = false;
    bool any = false;
    while (take_name("not")) {
      negated = !negated;
      any = true;
    }
    Value value = comparison();
    return any ? Value(value.truth() != negated) : value;
  }
  Value comparison() {
    Value left = sum();
    bool compared = false;
    while (true) {
      const bool negated = token().is_name("not") && tokens_[at_ + 1].is_name("in");
      if (negated) ++at_;
      const std::string symbol = token().text;
      const bool known =
          token().is_name("in") || (token().kind == Token::Kind::kSymbol &&
                                    (symbol == "==" || symbol == "!=" || symbol == "<" ||
                                     symbol == ">" || symbol == "<=" || symbol == ">="));
      if (!known) return left;
      if (compared) unknown();  // a < b < c
      compared = true;
      ++at_;
      const Value right = sum();
      if (live_) left = compare(left, symbol, right) != negated;
    }
  }
  Value sum() {
    Value left = unary();
    while (token().is("+") || token().is("-") || token().is("~")) {
      const std::string symbol = tokens_[at_++].text;
      const Value right = unary();
      if (live_) left = combine(left, symbol, right);
    }
    return left;
  }
  /// A value, its filters and its tests, which hold for the minus in front of it too.
  Value unary() {
    Value value = signed_value();
    while (true) {
      if (take("|")) {
        const std::string filter = name();
        if (token().is("(")) unknown();
        if (live_) value = apply_filter(value, filter);
      } else if (take_name("is")) {
        const bool negated = take_name("not");
        const std::string test = name();
        if (live_) value = holds(value, test) != negated;
      } else {
        return value;
      }
    }
  }
  Value signed_value() {
    bool negative = false;
    bool any = false;
    while (take("-")) {
      negative = !negative;
      any = true;
    }
    Value value = postfix();
    if (!any || !live_) return value;
    if (value.number() == nullptr) throw std::invalid_argument("a minus before what is no number");
    return negative ? -*value.number() : *value.number();
  }
  /// A value and what is taken out of it.
  Value postfix() {
    Value value = primary();
    while (true) {
      if (take(".")) {
        const std::string member = name();
        if (!take("(")) {
          if (live_) value = member_of(value, member);
          continue;
        }
        const List given = arguments();
        if (live_) value = call_method(value, member, given);
      } else if (take("[")) {
        value = subscript(value);
      } else {
        return value;
      }
    }
  }
  Value subscript(const Value& value) {
    std::vector<Value> bounds(1);
    bool any = false;
    while (!take("]")) {
      if (take(":")) {
        bounds.emplace_back();
      } else {
        if (any && !tokens_[at_ - 1].is(":")) unknown();
        bounds.back() = conditional();
      }
      any = true;
    }
    if (!any || bounds.size() > 3) unknown();
    if (!live_) return {};
    return bounds.size() == 1 ? member_of(value, bounds[0]) : slice(value, bounds);
  }
  List arguments() {
    List given;
    while (!take(")")) {
      given.push_back(conditional());
      if (!token().is(")")) expect(",");
    }
    return given;
  }

  Value primary() {
    const Token& first = tokens_[at_++];
    switch (first.kind) {
      case Token::Kind::kString: {
        std::string text = first.text;
        while (token().kind == Token::Kind::kString) text += tokens_[at_++].text;
        return text;
      }
      case Token::Kind::kInteger:
        return static_cast<int64_t>(std::stol(first.text));
      case Token::Kind::kName:
        return named(first.text);
      default:
        break;
    }
    if (first.is("(")) {
      Value value = conditional();
      expect(")");
      return value;
    }
    if (first.is("[")) {
      List list;
      while (!take("]")) {
        list.push_back(conditional());
        if (!token().is("]")) expect(",");
      }
      return list;
    }
    --at_;
    unknown();
  }
  Value named(const std::string& word) {
    if (word == "true" || word == "True") return true;
    if (word == "false" || word == "False") return false;
    if (word == "none" || word == "None") return None{};
    if (!take("(")) return live_ ? lookup_(word) : Value();
    if (word == "namespace") return new_namespace();
    const List given = arguments();
    if (!live_) return {};
    if (word == "raise_exception" && given.size() == 1 && given[0].text() != nullptr) {
      throw std::invalid_argument(
          fmt::format("messages that it does not take: \"{}\"", *given[0].text()));
    }
    throw std::invalid_argument(fmt::format("the function {}", word));
  }
  Value new_namespace() {
    Map members;
    while (!take(")")) {
      const std::string member = name();
      expect("=");
      members[member] = conditional();
      if (!token().is(")")) expect(",");
    }
    return members;
  }

  std::span<const Token> tokens_;
  Lookup lookup_;
  size_t at_ = 0;
  int depth_ = 0;
  bool live_ = true;
};

}  // namespace

Value evaluate(std::span<const Token> tokens, Lookup lookup) {
  return Evaluator(tokens, lookup).all();
}

}  // namespace athanor::data::jinja
