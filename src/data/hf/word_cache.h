// Words that were encoded before, and their ids.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace athanor::data::hf {

/// A direct-mapped cache of words of at most kLongestWord bytes that become at most kMostIds tokens; nearly all words of
/// real text are so. An entry is half a cache line. Not for use from several threads.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 15;
  static constexpr size_t kMostIds = 4;

  /// A word as two numbers: its bytes, zeros, its length. Equal words have equal keys.
  struct Key {
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key{0, 0};  // of length 0: no word
    int32_t ids[kMostIds] = {-1, -1, -1, -1};
  };

  WordCache() : entries_(std::make_unique<Entry[]>(kEntries)) {}

  /// The key of a word of 1 to kLongestWord bytes. `readable` bytes from word.data() on may be read.
  static Key key_of(std::string_view word, size_t readable) {
    Key key{0, 0};
    if (readable >= 16) {
      std::memcpy(&key, word.data(), 16);
      const size_t bits = word.size() * 8;
      if (bits < 64) {
        key.low &= (uint64_t{1} << bits) - 1;
        key.high = 0;
      } else {
        key.high &= (uint64_t{1} << (bits - 64)) - 1;
      }
    } else {
      std::memcpy(&key, word.data(), word.size());
    }
    key.high |= static_cast<uint64_t>(word.size()) << 56;
    return key;
  }
  /// The entry that holds the word, or would.
  Entry& at(const Key& key) {
    uint64_t hash = key.low * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9;
    return entries_[hash >> (64 - kEntryBits)];
  }

 private:
  static constexpr int kEntryBits = 15;  // 1 MB: about a core's second cache
  static constexpr size_t kEntries = size_t{1} << kEntryBits;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace athanor::data::hf
