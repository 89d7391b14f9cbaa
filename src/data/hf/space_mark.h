// The character that stands for a space inside tokens.
#pragma once

#include <string_view>

namespace athanor::data::hf {

inline constexpr char32_t kSpaceMarkCode = 0x2581;
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

}  // namespace athanor::data::hf
