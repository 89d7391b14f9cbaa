#include "data/hf/byte_level.h"

#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr int kBeyond = 0x100;           // the first character for a byte that is not printable
constexpr char32_t kCharacters = 0x144;  // one past the last of them

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> all;
    int beyond = kBeyond;
    for (int byte = 0; byte < 256; ++byte) {
      append_utf8(all[byte], static_cast<char32_t>(is_printable(byte) ? byte : beyond++));
    }
    return all;
  }();
  return characters;
}

int byte_of_character(char32_t c) {
  static const std::array<int16_t, kCharacters> bytes = [] {
    std::array<int16_t, kCharacters> all{};
    all.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      all[first_character(byte_characters()[byte]).code] = static_cast<int16_t>(byte);
    }
    return all;
  }();
  return c < kCharacters ? bytes[c] : -1;
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += byte_characters()[static_cast<unsigned char>(byte)];
  return out;
}

bool append_spelled_bytes(std::string_view text, std::string& out) {
  const size_t before = out.size();
  while (!text.empty()) {
    const Character c = first_character(text);
    const int byte = byte_of_character(c.code);
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
    text.remove_prefix(c.bytes);
  }
  return true;
}

}  // namespace athanor::data::hf
