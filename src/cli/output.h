// Results go to stdout through here, so that a closed pipe or a full disk is never taken for
// success.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace athanor::cli {

/// Thrown when the reader of stdout has gone (`athanor … | head -1`). main ends the process as
/// SIGPIPE would have.
struct OutputClosed {};

/// Appends to stdout's buffer, which is written out when it grows large. Throws OutputClosed,
/// kResources on a full disk, kUsage on any other failure of stdout.
void print(std::string_view text);
/// `value` on one line; text in it that is not UTF-8 is replaced character by character.
void print_json(const nlohmann::json& value);
/// Writes out what is buffered. main calls it last; a verb that streams calls it after each piece.
void flush_output();

}  // namespace athanor::cli
