#include "data/jinja/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "data/hf/unicode.h"

namespace athanor::data::jinja {
namespace {

constexpr size_t kLongestList = 1'000'000;

/// What Python's str.strip() takes.
bool is_blank(char32_t c) { return hf::is_space(c) || (c >= 0x1C && c <= 0x1F); }

/// `text` without the characters at its begin and end that are among `characters`; white space where that is null.
std::string stripped(std::string_view text, const std::string* characters, bool left, bool right) {
  const auto goes = [&](char32_t c) {
    if (characters == nullptr) return is_blank(c);
    for (std::string_view rest = *characters; !rest.empty();) {
      const hf::Character one = hf::first_character(rest);
      if (one.code == c) return true;
      rest.remove_prefix(one.bytes);
    }
    return false;
  };
  while (left && !text.empty() && goes(hf::first_character(text).code)) {
    text.remove_prefix(hf::first_character(text).bytes);
  }
  while (right && !text.empty() && goes(hf::last_character(text).code)) {
    text.remove_suffix(hf::last_character(text).bytes);
  }
  return std::string(text);
}

List split(std::string_view text, const std::string& separator) {
  if (separator.empty()) throw std::invalid_argument("a split at nothing");
  List parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(std::string(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

}  // namespace

bool compare(const Value& left, const std::string& symbol, const Value& right) {
  if (symbol == "==") return left == right;
  if (symbol == "!=") return !(left == right);
  if (symbol == "in") {
    if (right.list() != nullptr) {
      return std::any_of(right.list()->begin(), right.list()->end(),
                         [&](const Value& one) { return one == left; });
    }
    if (right.map() != nullptr && left.text() != nullptr) {
      return right.map()->contains(*left.text());
    }
    if (right.text() == nullptr || left.text() == nullptr) {
      throw std::invalid_argument("'in' of other things than texts and lists");
    }
    return right.text()->find(*left.text()) != std::string::npos;
  }
  if (left.number() == nullptr || right.number() == nullptr) {
    throw std::invalid_argument(fmt::format("'{}' between what are no numbers", symbol));
  }
  const int64_t a = *left.number();
  const int64_t b = *right.number();
  return symbol == "<" ? a < b : symbol == ">" ? a > b : symbol == "<=" ? a <= b : a >= b;
}

Value combine(const Value& left, const std::string& symbol, const Value& right) {
  if (symbol == "~") return left.written() + right.written();
  if (left.number() != nullptr && right.number() != nullptr) {
    return symbol == "+" ? *left.number() + *right.number() : *left.number() - *right.number();
  }
  if (symbol == "+" && left.text() != nullptr && right.text() != nullptr) {
    return *left.text() + *right.text();
  }
  if (symbol == "+" && left.list() != nullptr && right.list() != nullptr) {
    if (left.list()->size() + right.list()->size() > kLongestList) {
      throw std::invalid_argument("a list as long as this");
    }
    List joined = *left.list();
    joined.insert(joined.end(), right.list()->begin(), right.list()->end());
    return joined;
  }
  throw std::invalid_argument(fmt::format("'{}' between things of other kinds", symbol));
}

Value apply_filter(const Value& value, const std::string& filter) {
  if (filter == "trim") return stripped(value.written(), nullptr, true, true);
  if (filter == "length" || filter == "count") {
    if (value.list() != nullptr) return static_cast<int64_t>(value.list()->size());
  } else if (filter == "string") {
    return value.written();
  } else if (filter == "first" || filter == "last") {
    if (value.list() != nullptr) {
      if (value.list()->empty()) return {};
      return filter == "first" ? value.list()->front() : value.list()->back();
    }
  }
  throw std::invalid_argument(fmt::format("the filter {}", filter));
}

bool holds(const Value& value, const std::string& test) {
  if (test == "defined") return !value.undefined();
  if (test == "undefined") return value.undefined();
  if (test == "none") return value.none();
  if (test == "string") return value.text() != nullptr;
  if (test == "mapping") return value.map() != nullptr;
  if (test == "true") return value.flag() != nullptr && *value.flag();
  if (test == "false") return value.flag() != nullptr && !*value.flag();
  if (test == "boolean") return value.flag() != nullptr;
  if (test == "iterable" || test == "sequence") {
    return value.text() != nullptr || value.list() != nullptr || value.map() != nullptr ||
           (value.undefined() && test == "iterable");
  }
  throw std::invalid_argument(fmt::format("the test 'is {}'", test));
}

Value member_of(const Value& value, const Value& key) {
  if (value.undefined()) {
    throw std::invalid_argument(fmt::format("'{}' of what is not defined", key.written()));
  }
  if (value.map() != nullptr && key.text() != nullptr) {
    const auto found = value.map()->find(*key.text());
    return found == value.map()->end() ? Value() : found->second;
  }
  if (value.list() != nullptr && key.number() != nullptr) {
    const auto size = static_cast<int64_t>(value.list()->size());
    const int64_t at = *key.number() + (*key.number() < 0 ? size : 0);
    return at < 0 || at >= size ? Value() : (*value.list())[static_cast<size_t>(at)];
  }
  if (key.text() != nullptr) return {};  // of a text, a number …: no such attribute
  throw std::invalid_argument("a subscript of what is no list");
}

Value slice(const Value& value, std::span<const Value> bounds) {
  if (value.list() == nullptr) throw std::invalid_argument("a slice of what is no list");
  const auto size = static_cast<int64_t>(value.list()->size());
  const auto given = [&](size_t i) { return i < bounds.size() && !bounds[i].undefined(); };
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (given(i) && bounds[i].number() == nullptr) {
      throw std::invalid_argument("a slice by what is no number");
    }
  }
  const int64_t step = given(2) ? *bounds[2].number() : 1;
  if (step != 1 && step != -1) throw std::invalid_argument("a slice in steps");
  const int64_t low = step > 0 ? 0 : -1;
  const auto bound = [&](size_t i, int64_t otherwise) {
    if (!given(i)) return otherwise;
    const int64_t at = *bounds[i].number() + (*bounds[i].number() < 0 ? size : 0);
    return std::clamp(at, low, size + low);
  };
  const int64_t begin = bound(0, step > 0 ? 0 : size - 1);
  const int64_t end = bound(1, step > 0 ? size : -1);
  List part;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    part.push_back((*value.list())[static_cast<size_t>(i)]);
  }
  return part;
}

Value call_method(const Value& value, const std::string& method, std::span<const Value> given) {
  const std::string* text = value.text();
  const std::string* argument = given.size() == 1 ? given[0].text() : nullptr;
  if (text != nullptr && (given.empty() || argument != nullptr)) {
    if (method == "strip") return stripped(*text, argument, true, true);
    if (method == "lstrip") return stripped(*text, argument, true, false);
    if (method == "rstrip") return stripped(*text, argument, false, true);
  }
  if (text != nullptr && argument != nullptr) {
    if (method == "startswith") return text->starts_with(*argument);
    if (method == "endswith") return text->ends_with(*argument);
    if (method == "split") return split(*text, *argument);
  }
  if (value.map() != nullptr && argument != nullptr && method == "get") {
    const auto found = value.map()->find(*argument);
    return found == value.map()->end() ? Value(None{}) : found->second;
  }
  throw std::invalid_argument(fmt::format("the method {}()", method));
}

}  // namespace athanor::data::jinja
