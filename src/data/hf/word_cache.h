// Words that were encoded before, and their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace athanor::data::hf {

/// A cache of words of at most kLongestWord bytes that become one to kMostIds tokens; nearly all words of real text are so.
/// A word has one of two places in one cache line: it comes into the second, and into the first, where rare words do not
/// drive it out, when it is met again. Not for use from several threads.
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
    Key key{0, 0};                             // of length 0: no word
    int32_t ids[kMostIds] = {-1, -1, -1, -1};  // -1 behind the last
    size_t count() const { return 1 + (ids[1] >= 0) + (ids[2] >= 0) + (ids[3] >= 0); }
  };

  WordCache() : sets_(std::make_unique<Set[]>(kSets)) {}

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
  /// The entry of a word; null where it is not known.
  const Entry* find(const Key& key) {
    Set& set = set_of(key);
    if (set.often.key == key) return &set.often;
    if (set.once.key != key) return nullptr;
    std::swap(set.often, set.once);
    return &set.often;
  }
  void insert(const Entry& entry) { set_of(entry.key).once = entry; }

 private:
  struct alignas(64) Set {
    Entry often, once;
  };
  static constexpr int kSetBits = 14;  // 1 MB: about a core's second cache
  static constexpr size_t kSets = size_t{1} << kSetBits;

  Set& set_of(const Key& key) {
    uint64_t hash = key.low * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9;
    return sets_[hash >> (64 - kSetBits)];
  }
  std::unique_ptr<Set[]> sets_;
};

}  // namespace athanor::data::hf
