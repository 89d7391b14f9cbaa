// The BPE model of a tokenizer.json: a word to ids by merges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/hf/join_table.h"
#include "data/hf/json_fields.h"
#include "data/hf/merge_table.h"
#include "data/hf/vocabulary.h"
#include "data/hf/word_cache.h"

namespace athanor::data::hf {

/// Ids being gathered: a vector that is not filled with zeros again and again.
class IdBuffer {
 public:
  /// Room for `more` ids behind those there are.
  int32_t* room(size_t more) {
    if (count_ + more > ids_.size()) ids_.resize((count_ + more) * 2 + 64);
    return ids_.data() + count_;
  }
  void advance(size_t count) { count_ += count; }
  void push(int32_t id) {
    *room(1) = id;
    ++count_;
  }
  size_t size() const { return count_; }
  std::vector<int32_t> take() {
    ids_.resize(count_);
    count_ = 0;
    return std::move(ids_);
  }

 private:
  std::vector<int32_t> ids_;
  size_t count_ = 0;
};

/// What one thread needs to encode words.
struct BpeState {
  WordCache cache;
  MergeScratch scratch;
  std::vector<int32_t> ids;
};

/// Immutable; each thread brings its own state.
class Bpe {
 public:
  /// The `model` of a file whose vocabulary is read. `byte_level`: words are bytes, and the vocabulary spells bytes by
  /// GPT-2's characters. Refuses merges that name no tokens, and options that are not known.
  Bpe(const Field& model, const TokenizerJson& json, const Vocabulary& vocabulary, bool byte_level);

  /// Appends the ids of a word. `readable` bytes from word.data() on may be read. Time is O(n log n).
  void encode(std::string_view word, size_t readable, BpeState& state, IdBuffer& ids) const;

  int32_t unk() const { return unk_; }
  /// True when a word that begins like `text` may be cut behind its first unit (a byte or a character) and the rest be
  /// encoded as another word.
  bool cuts_behind_first(std::string_view text) const {
    const size_t unit = byte_level_ ? 1 : first_character(text).bytes;
    return !ignore_merges_ && text.size() > unit && joins_.next_cut(text, 0) == unit;
  }

 private:
  void read_units(const Vocabulary& vocabulary);
  void encode_part(std::string_view part, size_t readable, BpeState& state, IdBuffer& ids) const;
  /// state.ids = the ids of a part, merged.
  void merge(std::string_view part, BpeState& state) const;
  void split_units(std::string_view part, std::vector<int32_t>& ids) const;
  std::optional<int32_t> whole_word(std::string_view word) const;

  bool byte_level_;
  bool byte_fallback_ = false;
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  int32_t unk_ = -1;
  std::vector<int32_t> unit_ids_;      // of each byte or character; −1: not in the vocabulary
  std::vector<int32_t> fallback_ids_;  // of "<0x00>" …; −1 where one is missing
  std::unordered_map<std::string, int32_t> words_;  // for ignore_merges
  std::unique_ptr<MergeTable> merges_;
  JoinTable joins_;
};

}  // namespace athanor::data::hf
