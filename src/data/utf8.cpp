#include "data/utf8.h"

#include <cstdint>
#include <cstring>

namespace athanor::data {
namespace {

/// Bytes of the character that `lead` begins; 0 when no character begins so.
size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// True when `byte` may stand at `index` (≥ 1) behind `lead`. Only the second byte's range depends
/// on the lead: that excludes overlong forms, surrogates and what lies above U+10FFFF.
bool may_follow(unsigned char lead, size_t index, unsigned char byte) {
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (index == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;
    if (i + 8 <= text.size() &&
        (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080ULL) == 0)) {
      i += 8;
      continue;
    }
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = length_of(lead);
    if (length == 0 || i + length > text.size()) return i;
    for (size_t k = 1; k < length; ++k) {
      if (!may_follow(lead, k, static_cast<unsigned char>(text[i + k]))) return i;
    }
    i += length;
  }
  return i;
}

void Utf8Repair::push(unsigned char byte, std::string& out) {
  if (!pending_.empty()) {
    const auto lead = static_cast<unsigned char>(pending_[0]);
    if (may_follow(lead, pending_.size(), byte)) {
      pending_ += static_cast<char>(byte);
      if (pending_.size() == length_of(lead)) {
        out += pending_;
        pending_.clear();
      }
      return;
    }
    finish(out);
  }
  const size_t length = length_of(byte);
  if (length == 1) {
    out += static_cast<char>(byte);
  } else if (length == 0) {
    out += kReplacement;
  } else {
    pending_ = static_cast<char>(byte);
  }
}

void Utf8Repair::finish(std::string& out) {
  if (pending_.empty()) return;
  const size_t marks = policy_ == Policy::kEachByte ? pending_.size() : 1;
  for (size_t i = 0; i < marks; ++i) out += kReplacement;
  pending_.clear();
}

}  // namespace athanor::data
