#include "data/hf/join_table.h"

#include <algorithm>
#include <bit>

namespace athanor::data::hf {
namespace {

constexpr uint64_t kEmpty = ~uint64_t{0};

uint64_t pair_of(char32_t left, char32_t right) { return uint64_t{left} << 32 | right; }
size_t slot_of(uint64_t pair, size_t slots) {
  return static_cast<size_t>((pair * 0x9E3779B97F4A7C15) >> (64 - std::countr_zero(slots)));
}

}  // namespace

void JoinTable::add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  if (bytes_) {
    if (byte_pairs_.empty()) byte_pairs_.resize(256 * 256);
    byte_pairs_[static_cast<unsigned char>(left.back()) * 256u +
                static_cast<unsigned char>(right.front())] = true;
    return;
  }
  const char32_t a = last_character(left).code;
  const char32_t b = first_character(right).code;
  const uint32_t x = class_of(a);
  const uint32_t y = class_of(b);
  if (x < kOther && y < kOther) {
    common_[x * kRow + (y >> 6)] |= uint64_t{1} << (y & 63);
  } else {
    rare_.push_back(pair_of(a, b));
  }
}

void JoinTable::finish(std::vector<bool> known) {
  known_ = std::move(known);
  if (bytes_) {
    byte_pairs_.resize(256 * 256);
    for (size_t a = 0; a < 256; ++a) {
      for (size_t b = 0; b < 256; ++b) {
        if (!known_[a] || !known_[b]) byte_pairs_[a * 256 + b] = true;
      }
    }
    return;
  }
  const auto known_class = [this](uint32_t x) { return known_[x == kMarkClass ? kMark : x]; };
  for (uint32_t x = 0; x < kOther; ++x) {
    for (uint32_t y = 0; y < kOther; ++y) {
      if (!known_class(x) || !known_class(y))
        common_[x * kRow + (y >> 6)] |= uint64_t{1} << (y & 63);
    }
  }
  std::sort(rare_.begin(), rare_.end());
  rare_.erase(std::unique(rare_.begin(), rare_.end()), rare_.end());
  const size_t slots = std::bit_ceil(std::max<size_t>(rare_.size() * 2, 16));
  std::vector<uint64_t> table(slots, kEmpty);
  for (const uint64_t pair : rare_) {
    size_t i = slot_of(pair, slots);
    while (table[i] != kEmpty) i = (i + 1) & (slots - 1);
    table[i] = pair;
  }
  rare_ = std::move(table);
}

bool JoinTable::rare_pair(char32_t left, char32_t right) const {
  if (!known_[left] || !known_[right]) return true;
  const uint64_t pair = pair_of(left, right);
  for (size_t i = slot_of(pair, rare_.size());; i = (i + 1) & (rare_.size() - 1)) {
    if (rare_[i] == pair) return true;
    if (rare_[i] == kEmpty) return false;
  }
}

size_t JoinTable::next_byte_cut(std::string_view text, size_t begin) const {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (!byte_pairs_[static_cast<unsigned char>(text[i - 1]) * 256u +
                     static_cast<unsigned char>(text[i])]) {
      return i;
    }
  }
  return text.size();
}

size_t JoinTable::next_character_cut(std::string_view text, size_t begin) const {
  Character last = first_character(text.data() + begin);
  uint32_t last_class = class_of(last.code);
  for (size_t i = begin + last.bytes; i < text.size();) {
    const Character c = first_character(text.data() + i);
    const uint32_t c_class = class_of(c.code);
    const bool joined = last_class < kOther && c_class < kOther ? common_pair(last_class, c_class)
                                                                : rare_pair(last.code, c.code);
    if (!joined) return i;
    last = c;
    last_class = c_class;
    i += c.bytes;
  }
  return text.size();
}

}  // namespace athanor::data::hf
