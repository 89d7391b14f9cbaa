// Numbers of things in sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace athanor {

/// "1 rank", "2 ranks", "0 ranks": nouns whose plural ends in s.
std::string counted(uint64_t number, std::string_view noun);

}  // namespace athanor
