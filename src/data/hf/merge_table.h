// The merges of a BPE model: two neighbouring tokens to the token that they become, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor::data::hf {

/// What a pair of tokens becomes. Merges of low rank come first.
struct Merge {
  uint32_t rank = kNone;
  int32_t id = -1;
  static constexpr uint32_t kNone = 0xFFFFFFFF;
};

/// A flat hash table of pairs with linear probing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(size_t pairs);
  /// A pair that is there already gets the new merge.
  void insert(int32_t left, int32_t right, Merge merge);
  /// rank kNone where no merge joins them.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const Entry& entry = entries_[i];
      if (entry.key == key) return entry.merge;
      if (entry.key == kEmpty) return {};
    }
  }

 private:
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15) >> shift_);
  }

  std::vector<Entry> entries_;
  size_t mask_ = 0;
  int shift_ = 0;
};

/// Room for merging, kept from word to word.
struct MergeScratch {
  struct Symbol {
    int32_t id;
    uint32_t rank;  // of the merge with the next symbol
    uint32_t previous, next;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
};

/// Applies merges to `ids` until none is left: always the one of lowest rank, of equals the leftmost. The time for n
/// tokens is O(n log n).
void merge_all(const MergeTable& merges, std::vector<int32_t>& ids, MergeScratch& scratch);

}  // namespace athanor::data::hf
