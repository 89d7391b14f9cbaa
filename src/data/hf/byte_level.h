// GPT-2's spelling of bytes: 256 printable characters, one for each.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace athanor::data::hf {

/// The character (UTF-8) that stands for each byte: printable Latin-1 characters for themselves, the other bytes, in order,
/// the characters from U+0100 on.
const std::array<std::string, 256>& byte_characters();
/// The byte that a character stands for; −1 when none does.
int byte_of_character(char32_t c);

/// `bytes` spelled.
std::string spell_bytes(std::string_view bytes);
/// Appends the bytes that `text` spells; false, with `out` as it was, when a character of it stands for none.
bool append_spelled_bytes(std::string_view text, std::string& out);

}  // namespace athanor::data::hf
