// The first half of learning a BPE: the distinct words of a text and how often each occurs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "data/documents.h"
#include "data/hf/added_tokens.h"
#include "data/hf/known_patterns.h"

namespace athanor::data {

/// Distinct words, each with a count: a flat hash table over one buffer of bytes.
class WordTable {
 public:
  /// Words are cut to this many bytes before they come here: no useful token is longer.
  static constexpr size_t kLongestWord = 256;

  /// `hash` is word_hash(word).
  void add(std::string_view word, uint64_t hash, uint64_t count);
  void add_all(const WordTable& other);
  /// Room for so many words. To be made before words are taken over from another table: they come in the order of its
  /// slots, and would fill up parts of a table that grows under way.
  void reserve(size_t words);
  size_t size() const { return size_; }
  /// What the words count for in a limit: their bytes and 32 for each, which is about what they take.
  uint64_t cost() const { return bytes_.size() + 32 * size_; }
  /// Calls visit(word, hash, count) for each word, in an order that means nothing.
  template <class Visit>
  void each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.count > 0) visit(word_of(slot), slot.hash, slot.count);
    }
  }
  /// Empty, with its room kept.
  void clear();

 private:
  struct Slot {
    uint64_t hash = 0;
    uint64_t count = 0;  // 0: free
    uint64_t place = 0;  // offset in bytes_ << 16 | length
  };
  std::string_view word_of(const Slot& slot) const {
    return std::string_view(bytes_).substr(slot.place >> 16, slot.place & 0xFFFF);
  }

  std::vector<Slot> slots_;
  std::string bytes_;
  size_t size_ = 0;
};

/// A hash of a word's bytes, the same on every machine.
uint64_t word_hash(std::string_view word);

/// Tables by the first bits of the hash, so that threads can fill them side by side.
struct WordCounts {
  static constexpr int kTableBits = 5;
  std::vector<WordTable> tables = std::vector<WordTable>(size_t{1} << kTableBits);

  void add(std::string_view word, uint64_t count = 1);
  uint64_t size() const;
  uint64_t cost() const;
};

struct WordCounting {
  hf::KnownPattern pattern = hf::KnownPattern::kCl100kThreeDigits;  ///< what cuts text into words
  const hf::AddedTokenMatcher* special = nullptr;  ///< cut out before; null: nothing is
  /// The limit of WordTable::cost in all. When it is passed the rarest words are forgotten (of equals those with the
  /// smallest hash) until half of it is left; a warning says so in the end.
  uint64_t most_cost = uint64_t{128} << 20;
};

/// Counts the words of all documents left in `documents`. A pure function of the text and the options, whatever the number
/// of threads. Words of more than kLongestWord bytes are cut between characters. data_error without any text.
WordCounts count_words(DocumentReader& documents, const WordCounting& options,
                       const Threads& threads);

}  // namespace athanor::data
