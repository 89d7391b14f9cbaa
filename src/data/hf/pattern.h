// Patterns of tokenizer.json: a literal text, or a regular expression in Oniguruma's syntax.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/threads.h"
#include "data/hf/json_fields.h"

namespace athanor::data::hf {

/// Immutable; may be used from many threads at once.
class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Calls match(begin, end) for every match in `text` from left to right; none overlap, and an empty one is not found
  /// right behind another. data_error when matching would take more memory or steps than it may.
  virtual void each_match(std::string_view text,
                          FunctionRef<void(size_t begin, size_t end)> match) const = 0;
};

/// Finds `literal`; nothing when it is empty.
std::unique_ptr<Pattern> literal_pattern(std::string literal);
/// Matches by PCRE2 what Oniguruma (Ruby's syntax, Unicode 16) would match. Throws std::invalid_argument, with what
/// cannot be read and where, when it does not compile or uses what is not known here.
std::unique_ptr<Pattern> regex_pattern(const std::string& regex);
/// The `pattern` of a component: {"String": …} or {"Regex": …}.
std::unique_ptr<Pattern> read_pattern(const Field& field);
/// The regular expression of {"Regex": …}; empty for a literal.
std::string regex_of(const Field& field);

/// Cuts `text` into matches and what lies between: part(begin, end, is_match), in order.
void each_part(const Pattern& pattern, std::string_view text,
               FunctionRef<void(size_t begin, size_t end, bool is_match)> part);

}  // namespace athanor::data::hf
