#include "data/bpe_train_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "data/hf/unicode.h"

namespace athanor::data {
namespace {

constexpr size_t kFirstSlots = 64;
/// Text that is read before it is counted, and what one task of that takes.
constexpr size_t kRoundBytes = size_t{32} << 20;
constexpr size_t kPartBytes = size_t{256} << 10;

/// The end of a part that begins at `begin`: behind a line break with no white space after it, over which no match of
/// the known patterns reaches, at least kPartBytes away.
size_t part_end(std::string_view text, size_t begin) {
  for (size_t at = begin + kPartBytes; at < text.size(); ++at) {
    at = text.find('\n', at);
    if (at == std::string_view::npos || at + 1 >= text.size()) break;
    if (!hf::is_space(hf::first_character(text.substr(at + 1)).code)) return at + 1;
  }
  return text.size();
}

/// Cuts a part into words and counts them.
void count_part(std::string_view part, const WordCounting& options, WordCounts& counts) {
  const auto count_text = [&](std::string_view text) {
    hf::each_word(options.pattern, text, [&](size_t begin, size_t end) {
      while (end - begin > WordTable::kLongestWord) {
        size_t cut = begin + WordTable::kLongestWord;
        while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
        counts.add(text.substr(begin, cut - begin));
        begin = cut;
      }
      counts.add(text.substr(begin, end - begin));
    });
  };
  if (options.special == nullptr) return count_text(part);
  options.special->each_part(part, [&](size_t begin, size_t end, int32_t id) {
    if (id < 0) count_text(part.substr(begin, end - begin));
  });
}

/// Forgets the rarest words until at most half of `most_cost` is left. Returns how many, and the highest count among them.
std::pair<uint64_t, uint64_t> forget_rarest(WordCounts& counts, uint64_t most_cost) {
  struct Rank {
    uint64_t count, hash, cost;
    bool operator<(const Rank& other) const {
      return std::pair(count, hash) < std::pair(other.count, other.hash);
    }
  };
  std::vector<Rank> ranks;
  ranks.reserve(counts.size());
  for (const WordTable& table : counts.tables) {
    table.each([&](std::string_view word, uint64_t hash, uint64_t count) {
      ranks.push_back({count, hash, word.size() + 32});
    });
  }
  std::sort(ranks.begin(), ranks.end());
  uint64_t cost = counts.cost();
  size_t gone = 0;
  while (cost > most_cost / 2 && gone < ranks.size()) cost -= ranks[gone++].cost;
  if (gone == 0) return {0, 0};
  const Rank last = ranks[gone - 1];
  uint64_t forgotten = 0;
  for (WordTable& table : counts.tables) {
    WordTable kept;
    kept.reserve(table.size());
    table.each([&](std::string_view word, uint64_t hash, uint64_t count) {
      if (last < Rank{count, hash, 0}) {
        kept.add(word, hash, count);
      } else {
        ++forgotten;
      }
    });
    table = std::move(kept);
  }
  return {forgotten, last.count};
}

}  // namespace

uint64_t word_hash(std::string_view word) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  uint64_t hash = word.size() * kFactor;
  const auto mix = [&](uint64_t bytes) {
    hash = (hash ^ bytes) * kFactor;
    hash ^= hash >> 29;
  };
  size_t at = 0;
  for (uint64_t bytes = 0; at + 8 <= word.size(); at += 8) {
    std::memcpy(&bytes, word.data() + at, 8);
    mix(bytes);
  }
  uint64_t rest = 0;
  for (; at < word.size(); ++at) rest = rest << 8 | static_cast<unsigned char>(word[at]);
  mix(rest);
  mix(hash >> 32);
  return hash;
}

void WordTable::add(std::string_view word, uint64_t hash, uint64_t count) {
  reserve(size_ + 1);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.count == 0) {
      slot = {hash, count, static_cast<uint64_t>(bytes_.size()) << 16 | word.size()};
      bytes_ += word;
      ++size_;
      return;
    }
    if (slot.hash == hash && word_of(slot) == word) {
      slot.count += count;
      return;
    }
  }
}

void WordTable::add_all(const WordTable& other) {
  reserve(size_ + other.size_);
  other.each(
      [this](std::string_view word, uint64_t hash, uint64_t count) { add(word, hash, count); });
}

void WordTable::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  bytes_.clear();
  size_ = 0;
}

void WordTable::reserve(size_t words) {
  if (words * 4 <= slots_.size() * 3) return;
  std::vector<Slot> old(std::bit_ceil(std::max(kFirstSlots, words * 4 / 3 + 1)));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].count > 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

void WordCounts::add(std::string_view word, uint64_t count) {
  const uint64_t hash = word_hash(word);
  tables[hash >> (64 - kTableBits)].add(word, hash, count);
}

uint64_t WordCounts::size() const {
  uint64_t words = 0;
  for (const WordTable& table : tables) words += table.size();
  return words;
}

uint64_t WordCounts::cost() const {
  uint64_t sum = 0;
  for (const WordTable& table : tables) sum += table.cost();
  return sum;
}

WordCounts count_words(DocumentReader& documents, const WordCounting& options,
                       const Threads& threads) {
  WordCounts all;
  std::vector<WordCounts> of_thread(static_cast<size_t>(threads.count()));
  uint64_t forgotten = 0;
  uint64_t highest = 0;
  bool more = true;
  while (more) {
    std::vector<std::string> texts;
    size_t bytes = 0;
    for (Document document; bytes < kRoundBytes && (more = documents.next(document));) {
      bytes += document.text.size();
      texts.push_back(std::move(document.text));
    }
    std::vector<std::string_view> parts;
    for (const std::string& text : texts) {
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = part_end(text, begin);
        parts.push_back(std::string_view(text).substr(begin, end - begin));
        begin = end;
      }
    }
    threads.run(static_cast<int64_t>(parts.size()), [&](int64_t part, int thread) {
      count_part(parts[static_cast<size_t>(part)], options, of_thread[static_cast<size_t>(thread)]);
    });
    threads.run(static_cast<int64_t>(all.tables.size()), [&](int64_t number, int) {
      const auto table = static_cast<size_t>(number);
      for (WordCounts& counts : of_thread) {
        all.tables[table].add_all(counts.tables[table]);
        counts.tables[table].clear();
      }
    });
    // What is in the tables now is a function of the text read so far, so what is forgotten is one too.
    if (all.cost() > options.most_cost) {
      const auto [words, count] = forget_rarest(all, options.most_cost);
      forgotten += words;
      highest = std::max(highest, count);
    }
  }
  if (all.size() == 0) throw no_text_error(documents.origin());
  if (forgotten > 0) {
    log::warning(
        fmt::format("the text has more words than {} MB hold: on the way {} that had been seen at "
                    "most {} times were forgotten, and what is learned does not know them",
                    options.most_cost >> 20, forgotten, highest));
  }
  return all;
}

}  // namespace athanor::data
