#include "data/jinja/value.h"

#include <stdexcept>

namespace athanor::data::jinja {

bool Value::truth() const {
  if (undefined() || none()) return false;
  if (flag() != nullptr) return *flag();
  if (number() != nullptr) return *number() != 0;
  if (text() != nullptr) return !text()->empty();
  return list() != nullptr ? !list()->empty() : !map()->empty();
}

std::string Value::written() const {
  if (undefined()) return "";
  if (none()) return "None";
  if (flag() != nullptr) return *flag() ? "True" : "False";
  if (number() != nullptr) return std::to_string(*number());
  if (text() != nullptr) return *text();
  throw std::invalid_argument("a list or a mapping that is written out");
}

bool Value::operator==(const Value& other) const {
  if (undefined() || other.undefined()) return undefined() && other.undefined();
  if (none() || other.none()) return none() && other.none();
  if (flag() != nullptr && other.flag() != nullptr) return *flag() == *other.flag();
  if (number() != nullptr && other.number() != nullptr) return *number() == *other.number();
  if (text() != nullptr && other.text() != nullptr) return *text() == *other.text();
  if (text() != nullptr || other.text() != nullptr) return false;
  throw std::invalid_argument("a comparison of other things than texts or numbers");
}

}  // namespace athanor::data::jinja
