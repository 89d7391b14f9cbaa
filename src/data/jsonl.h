// One line of a .jsonl file.
#pragma once

#include <string>
#include <string_view>

namespace athanor::data {

/// Takes the string `text` out of the JSON object that `line` is (RFC 8259; valid UTF-8; keys at
/// the top level only, and once). Returns an empty string and fills `text`, or
/// says what is wrong with the line, without its place. Any nesting depth: nothing recurses.
std::string text_of_json_line(std::string_view line, std::string& text);

/// True when `line` holds nothing but JSON white space.
bool is_blank_json_line(std::string_view line);

}  // namespace athanor::data
