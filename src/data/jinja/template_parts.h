// A Jinja template cut into what is written as it stands, expressions and statements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::data::jinja {

struct Token {
  enum class Kind : uint8_t { kString, kInteger, kName, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  ///< of a string what it stands for

  bool is(std::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
};

struct Part {
  enum class Kind : uint8_t { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;           ///< of kText
  std::vector<Token> tokens;  ///< of the others, kEnd last
};

/// Cuts a template as Hugging Face sets Jinja up: trim_blocks, lstrip_blocks, a last line break dropped. Comments are gone.
/// Throws std::invalid_argument for what is broken or not known.
std::vector<Part> template_parts(std::string_view source);

}  // namespace athanor::data::jinja
