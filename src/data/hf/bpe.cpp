#include "data/hf/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/hf/byte_level.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kCharacters = 0x110000;

void append(const std::vector<int32_t>& from, IdBuffer& ids) {
  if (from.empty()) return;
  std::memcpy(ids.room(from.size()), from.data(), from.size() * sizeof(int32_t));
  ids.advance(from.size());
}

/// A text option that only its absence is known of.
void refuse_text(const Field& model, const char* key) {
  const auto field = model.find(key);
  if (field && !field->text().empty()) throw field->refusal("is not known");
}

}  // namespace

Bpe::Bpe(const Field& model, const TokenizerJson& json, const Vocabulary& vocabulary,
         bool byte_level)
    : byte_level_(byte_level), joins_(byte_level) {
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
              "fuse_unk", "byte_fallback", "ignore_merges"});
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  if (const auto dropout = model.find("dropout");
      dropout && (!dropout->value().is_number() || dropout->value().get<double>() != 0)) {
    throw dropout->refusal("makes encoding a matter of chance: set it to null");
  }
  if (!json.has_vocab) throw model.refusal("has no vocab that is an object");
  if (!json.has_merges) throw model.refusal("has no merges");
  byte_fallback_ = model.flag_or("byte_fallback", false);
  fuse_unk_ = model.flag_or("fuse_unk", false);
  ignore_merges_ = model.flag_or("ignore_merges", false);
  if (const auto unk = model.find("unk_token")) {
    unk_ = vocabulary.model_id(unk->text());
    if (unk_ < 0)
      throw unk->refusal(fmt::format("names {}, which model.vocab lacks", shown(unk->text())));
  }
  read_units(vocabulary);
  merges_ = std::make_unique<MergeTable>(json.merges.size());
  std::vector<bool> known(unit_ids_.size());
  for (size_t i = 0; i < known.size(); ++i) known[i] = unit_ids_[i] >= 0;
  const auto spelled = [byte_level](const std::string& token, std::string& bytes) {
    bytes.clear();
    return byte_level && append_spelled_bytes(token, bytes) ? std::string_view(bytes)
                                                            : std::string_view(token);
  };
  std::string left_bytes;
  std::string right_bytes;
  for (size_t rank = 0; rank < json.merges.size(); ++rank) {
    const auto& [left, right] = json.merges[rank];
    const auto id_of = [&](const std::string& token, const char* which) {
      const int32_t id = vocabulary.model_id(token);
      if (id >= 0) return id;
      throw model.refusal(
          fmt::format("has the merge {} of {} and {}, but {} {} is not in its vocab", rank,
                      shown(left), shown(right), which, shown(token)));
    };
    const int32_t left_id = id_of(left, "the left part");
    const int32_t right_id = id_of(right, "the right part");
    const int32_t id = id_of(left + right, "what they become,");
    merges_->insert(left_id, right_id, {static_cast<uint32_t>(rank), id});
    joins_.add(spelled(left, left_bytes), spelled(right, right_bytes));
  }
  joins_.finish(std::move(known));
  if (!ignore_merges_) return;
  for (const auto& [token, id] : vocabulary.model_ids) {
    std::string bytes;
    if (!byte_level_) {
      words_.emplace(token, id);
    } else if (append_spelled_bytes(token, bytes)) {
      words_.emplace(std::move(bytes), id);
    }
  }
}

void Bpe::read_units(const Vocabulary& vocabulary) {
  fallback_ids_.assign(256, -1);
  for (int byte = 0; byte < 256; ++byte) {
    fallback_ids_[byte] = vocabulary.model_id(fmt::format("<0x{:02X}>", byte));
  }
  unit_ids_.assign(byte_level_ ? 256 : kCharacters, -1);
  if (byte_level_) {
    for (int byte = 0; byte < 256; ++byte) {
      unit_ids_[byte] = vocabulary.model_id(byte_characters()[byte]);
    }
    return;
  }
  for (const auto& [token, id] : vocabulary.model_ids) {
    if (token.empty()) continue;
    const Character c = first_character(token);
    if (c.bytes == token.size()) unit_ids_[c.code] = id;
  }
}

void Bpe::encode(std::string_view word, size_t readable, BpeState& state, IdBuffer& ids) const {
  if (word.empty()) return;
  if (word.size() <= WordCache::kLongestWord) return encode_part(word, readable, state, ids);
  if (ignore_merges_) {
    // Parts of a word are no words: they must not be looked up as such.
    if (const auto id = whole_word(word)) return ids.push(*id);
    merge(word, state);
    return append(state.ids, ids);
  }
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = joins_.next_cut(word, begin);
    encode_part(word.substr(begin, end - begin), readable - begin, state, ids);
    begin = end;
  }
}

std::optional<int32_t> Bpe::whole_word(std::string_view word) const {
  const auto found = words_.find(std::string(word));
  return found == words_.end() ? std::nullopt : std::optional(found->second);
}

void Bpe::encode_part(std::string_view part, size_t readable, BpeState& state,
                      IdBuffer& ids) const {
  if (part.size() > WordCache::kLongestWord) {
    merge(part, state);
    return append(state.ids, ids);
  }
  const WordCache::Key key = WordCache::key_of(part, readable);
  if (const WordCache::Entry* known = state.cache.find(key)) {
    std::memcpy(ids.room(WordCache::kMostIds), known->ids, sizeof known->ids);
    return ids.advance(known->count());
  }
  std::optional<int32_t> whole;
  if (ignore_merges_) whole = whole_word(part);
  if (whole) {
    state.ids.assign(1, *whole);
  } else {
    merge(part, state);
  }
  append(state.ids, ids);
  if (state.ids.empty() || state.ids.size() > WordCache::kMostIds) return;
  WordCache::Entry entry{.key = key};
  std::copy(state.ids.begin(), state.ids.end(), entry.ids);
  state.cache.insert(entry);
}

void Bpe::merge(std::string_view part, BpeState& state) const {
  state.ids.clear();
  split_units(part, state.ids);
  merge_all(*merges_, state.ids, state.scratch);
}

void Bpe::split_units(std::string_view part, std::vector<int32_t>& ids) const {
  size_t unknown = 0;  // in a row, not written yet
  const auto flush = [&] {
    ids.insert(ids.end(), fuse_unk_ && unknown > 0 ? 1 : unknown, unk_);
    unknown = 0;
  };
  for (size_t i = 0; i < part.size();) {
    const Character c = byte_level_ ? Character{static_cast<unsigned char>(part[i]), 1}
                                    : first_character(part.data() + i);
    i += c.bytes;
    const int32_t id = unit_ids_[c.code];
    if (id >= 0) {
      if (unknown > 0) flush();
      ids.push_back(id);
      continue;
    }
    // The unit as text: where words are bytes it is the character that spells it.
    const std::string_view text = byte_level_ ? std::string_view(byte_characters()[c.code])
                                              : part.substr(i - c.bytes, c.bytes);
    const auto fallback = [this](char byte) {
      return fallback_ids_[static_cast<unsigned char>(byte)];
    };
    if (byte_fallback_ &&
        std::all_of(text.begin(), text.end(), [&](char b) { return fallback(b) >= 0; })) {
      // Unknown ones that wait stay behind these bytes, as in the reference.
      for (const char byte : text) ids.push_back(fallback(byte));
    } else if (unk_ >= 0) {
      ++unknown;
    }
  }
  flush();
}

}  // namespace athanor::data::hf
