// Reading JSON that others wrote: strict, and every error names the file and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace athanor::checkpoint {

/// Parses one JSON value. Throws kData naming `where`: text that is not JSON, a key that occurs
/// twice in an object, more than 64 levels of nesting.
nlohmann::json parse_json(std::string_view text, const std::string& where);

/// Member `key` of an object; kData when `object` is none or lacks it.
const nlohmann::json& member(const nlohmann::json& object, const char* key,
                             const std::string& where);
/// The same with its type checked. Integers are those that fit int64_t.
int64_t integer_member(const nlohmann::json& object, const char* key, const std::string& where);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& where);
std::vector<int64_t> integers_member(const nlohmann::json& object, const char* key,
                                     const std::string& where);

/// A name from a foreign file, fit for one line of a message: control characters escaped, cut at
/// 200 bytes.
std::string printable(std::string_view name);

}  // namespace athanor::checkpoint
