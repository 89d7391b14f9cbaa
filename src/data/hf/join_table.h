// Which neighbours a BPE model could ever join: elsewhere a long word may be cut and its parts encoded one by one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/hf/unicode.h"

namespace athanor::data::hf {

/// The pairs (last unit of a merge's left token, first unit of its right one). A unit is a byte or a character. Between two
/// units that are no such pair no merge ever joins tokens, so that cutting there changes no id.
class JoinTable {
 public:
  explicit JoinTable(bool bytes) : bytes_(bytes) {}
  /// Adds the pair of a merge; tokens of bytes or of characters. To be called before any question.
  void add(std::string_view left, std::string_view right);
  /// Ends adding. Units that the vocabulary lacks (`known` has 256 or 0x110000 flags) become several tokens, are dropped, or
  /// are joined as unknown ones: nothing is cut beside them.
  void finish(std::vector<bool> known);

  /// The end of the part of `text` that begins at `begin`; the text from there on is encoded by itself.
  size_t next_cut(std::string_view text, size_t begin) const {
    return bytes_ ? next_byte_cut(text, begin) : next_character_cut(text, begin);
  }

 private:
  static constexpr char32_t kMark = 0x2581;  // "▁", by far the most frequent one that is not ASCII
  static constexpr uint32_t kMarkClass = 128;
  static constexpr uint32_t kOther = 129;
  static constexpr size_t kRow = 3;  // 64-bit words in a row of pairs

  static uint32_t class_of(char32_t c) { return c < 128 ? c : c == kMark ? kMarkClass : kOther; }
  bool common_pair(uint32_t left, uint32_t right) const {
    return (common_[left * kRow + (right >> 6)] >> (right & 63) & 1) != 0;
  }
  bool rare_pair(char32_t left, char32_t right) const;
  size_t next_byte_cut(std::string_view text, size_t begin) const;
  size_t next_character_cut(std::string_view text, size_t begin) const;

  bool bytes_;
  std::vector<bool> byte_pairs_;               // 256 × 256
  std::array<uint64_t, 129 * kRow> common_{};  // pairs of classes below kOther
  std::vector<uint64_t> rare_;                 // all other pairs, then a flat hash set of them
  std::vector<bool> known_;
};

}  // namespace athanor::data::hf
