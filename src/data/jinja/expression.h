// Expressions of a Jinja template.
#pragma once

#include <span>

#include "base/threads.h"
#include "data/jinja/template_parts.h"
#include "data/jinja/value.h"

namespace athanor::data::jinja {

/// The value of a name; undefined where it has none.
using Lookup = FunctionRef<Value(const std::string& name)>;

/// The value of an expression, `tokens` up to kEnd. Of and, or and x if c else y only what counts is looked at. Throws
/// std::invalid_argument naming what is not known, and for what the template itself refuses (raise_exception).
Value evaluate(std::span<const Token> tokens, Lookup lookup);

}  // namespace athanor::data::jinja
