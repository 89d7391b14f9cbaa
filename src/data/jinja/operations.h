// What a Jinja expression may do with values. All throw std::invalid_argument naming what is not known.
#pragma once

#include <span>
#include <string>

#include "data/jinja/value.h"

namespace athanor::data::jinja {

/// `symbol` is ==, !=, <, >, <=, >= or in.
bool compare(const Value& left, const std::string& symbol, const Value& right);
/// `symbol` is +, - or ~.
Value combine(const Value& left, const std::string& symbol, const Value& right);
Value apply_filter(const Value& value, const std::string& filter);
/// value is `test`.
bool holds(const Value& value, const std::string& test);
/// value.name or value[key]; undefined where there is none.
Value member_of(const Value& value, const Value& key);
/// value[begin:end:step]; bounds that are left out are undefined.
Value slice(const Value& value, std::span<const Value> bounds);
Value call_method(const Value& value, const std::string& method, std::span<const Value> given);

}  // namespace athanor::data::jinja
