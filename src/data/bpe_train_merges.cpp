#include "data/bpe_train_merges.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

#include "base/error.h"

namespace athanor::data {
namespace {

/// What occurs once teaches nothing about another text.
constexpr int64_t kFewest = 2;

using Key = uint64_t;  // left << 32 | right
Key key_of(int32_t left, int32_t right) {
  return static_cast<Key>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Pair {
  Key key = 0;
  int64_t count = 0;
  std::vector<uint32_t> words;  // where it occurs or has occurred
  bool waiting = false;         // in the list of pairs that a merge has made more frequent
  bool merged = false;
  bool forbidden = false;
};

/// All pairs ever seen, found by their key.
class Pairs {
 public:
  Pairs() : slots_(1 << 16, kFree) {}
  uint32_t find_or_add(Key key) {
    const size_t mask = slots_.size() - 1;
    for (size_t i = slot_of(key);; i = (i + 1) & mask) {
      if (slots_[i] == kFree) {
        slots_[i] = static_cast<uint32_t>(pairs_.size());
        pairs_.emplace_back();
        pairs_.back().key = key;
        if (pairs_.size() * 2 > slots_.size()) grow();
        return static_cast<uint32_t>(pairs_.size() - 1);
      }
      if (pairs_[slots_[i]].key == key) return slots_[i];
    }
  }
  Pair& operator[](uint32_t number) { return pairs_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(pairs_.size()); }

 private:
  static constexpr uint32_t kFree = 0xFFFFFFFF;
  size_t slot_of(Key key) const {
    const uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15;
    return static_cast<size_t>(mixed >> (64 - std::countr_zero(slots_.size())));
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kFree);
    const size_t mask = slots_.size() - 1;
    for (uint32_t number = 0; number < pairs_.size(); ++number) {
      size_t i = slot_of(pairs_[number].key);
      while (slots_[i] != kFree) i = (i + 1) & mask;
      slots_[i] = number;
    }
  }

  std::vector<uint32_t> slots_;
  std::vector<Pair> pairs_;
};

/// A pair with the count it had when it was queued. The count may have fallen since; it is queued again where it rises.
struct Candidate {
  int64_t count;
  Key key;
  uint32_t pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : key > other.key;
  }
};

class Learner {
 public:
  Learner(CountedWords words, const MergeLearning& options, std::vector<std::string>& tokens)
      : words_(std::move(words)), options_(options), tokens_(tokens) {
    require(words_.words.size() < 0xFFFFFFFF, "more words than a BPE is learned from");
    for (size_t id = 0; id < tokens_.size(); ++id) {
      id_of_.emplace(tokens_[id], static_cast<int32_t>(id));
    }
    for (uint32_t w = 0; w < words_.words.size(); ++w) {
      const CountedWords::Word& word = words_.words[w];
      for (uint32_t i = 0; i + 1 < word.length; ++i) {
        const int32_t* ids = &words_.ids[word.begin + i];
        add(ids[0], ids[1], static_cast<int64_t>(word.count), w);
      }
    }
    queue_risen();
  }

  std::vector<std::pair<int32_t, int32_t>> learn() {
    std::vector<std::pair<int32_t, int32_t>> merges;
    while (tokens_.size() < options_.vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Pair& pair = pairs_[best.pair];
      if (pair.count != best.count) {
        // Where it has risen it is in the queue once more.
        if (pair.count < best.count) queue(best.pair);
        continue;
      }
      const auto left = static_cast<int32_t>(best.key >> 32);
      const auto right = static_cast<int32_t>(best.key);
      const std::string text =
          tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)];
      if (options_.reserved.contains(text)) {
        pair.forbidden = true;
        continue;
      }
      const auto [known, is_new] = id_of_.emplace(text, static_cast<int32_t>(tokens_.size()));
      if (is_new) tokens_.push_back(text);
      // A pair that comes up again, out of tokens with two origins, is merged by the first rule.
      if (!std::exchange(pair.merged, true)) merges.emplace_back(left, right);
      merge(best.pair, left, right, known->second);
    }
    return merges;
  }

 private:
  void add(int32_t left, int32_t right, int64_t count, uint32_t word) {
    const uint32_t number = pairs_.find_or_add(key_of(left, right));
    Pair& pair = pairs_[number];
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    if (!std::exchange(pair.waiting, true)) risen_.push_back(number);
  }
  void subtract(int32_t left, int32_t right, int64_t count) {
    pairs_[pairs_.find_or_add(key_of(left, right))].count -= count;
  }
  void queue(uint32_t number) {
    const Pair& pair = pairs_[number];
    if (pair.count >= kFewest && !pair.forbidden) queue_.push({pair.count, pair.key, number});
  }
  void queue_risen() {
    for (const uint32_t number : risen_) {
      pairs_[number].waiting = false;
      queue(number);
    }
    risen_.clear();
  }

  /// Joins left and right to `id` in all words, from the left.
  void merge(uint32_t number, int32_t left, int32_t right, int32_t id) {
    const std::vector<uint32_t> places = std::exchange(pairs_[number].words, {});
    for (const uint32_t w : places) {
      CountedWords::Word& word = words_.words[w];
      const auto count = static_cast<int64_t>(word.count);
      int32_t* ids = &words_.ids[word.begin];
      uint32_t kept = 0;
      for (uint32_t i = 0; i < word.length; ++i) {
        if (ids[i] != left || i + 1 == word.length || ids[i + 1] != right) {
          ids[kept++] = ids[i];
          continue;
        }
        if (kept > 0) {
          subtract(ids[kept - 1], left, count);
          add(ids[kept - 1], id, count, w);
        }
        if (i + 2 < word.length) {
          subtract(right, ids[i + 2], count);
          add(id, ids[i + 2], count, w);
        }
        ids[kept++] = id;
        ++i;
      }
      word.length = kept;
    }
    pairs_[number].count = 0;
    queue_risen();
  }

  CountedWords words_;
  const MergeLearning& options_;
  std::vector<std::string>& tokens_;
  std::unordered_map<std::string, int32_t> id_of_;
  Pairs pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint32_t> risen_;
};

}  // namespace

std::vector<std::pair<int32_t, int32_t>> learn_merges(CountedWords words,
                                                      const MergeLearning& options,
                                                      std::vector<std::string>& tokens) {
  return Learner(std::move(words), options, tokens).learn();
}

}  // namespace athanor::data
