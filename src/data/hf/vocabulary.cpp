#include "data/hf/vocabulary.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace athanor::data::hf {
namespace {

// More ids than bytes can name in a file of any size that is read whole: a wild number, not a vocabulary.
constexpr int64_t kMostIds = int64_t{1} << 28;

class Builder {
 public:
  Builder(const std::string& file, size_t expected) : file_(file) {
    vocabulary_.tokens.reserve(expected);
    taken_.reserve(expected);
  }

  void put(int64_t id, const std::string& token, const std::string& place) {
    if (id < 0 || id >= kMostIds) {
      throw refusal(place,
                    fmt::format("gives {} the id {}, which cannot be one", shown(token), id));
    }
    const auto at = static_cast<size_t>(id);
    // A hole is told from the number of tokens later; until then the room is bounded by that number.
    if (at >= limit_) {
      throw refusal(
          place,
          fmt::format("gives {} the id {}, but the file has {} tokens in all: ids have holes",
                      shown(token), id, limit_));
    }
    if (at >= taken_.size()) {
      taken_.resize(at + 1);
      vocabulary_.tokens.resize(at + 1);
    }
    if (taken_[at]) {
      throw refusal(place, fmt::format("gives {} the id {}, which {} has already", shown(token), id,
                                       shown(vocabulary_.tokens[at])));
    }
    taken_[at] = true;
    vocabulary_.tokens[at] = token;
  }
  void limit(size_t most) { limit_ = most; }

  Vocabulary finish() {
    for (size_t id = 0; id < taken_.size(); ++id) {
      if (!taken_[id]) {
        throw data_error(fmt::format("{}: no token has the id {}: ids have holes", file_, id));
      }
    }
    if (taken_.empty()) throw data_error(file_ + ": model.vocab is empty");
    return std::move(vocabulary_);
  }
  Vocabulary& vocabulary() { return vocabulary_; }
  Error refusal(const std::string& place, const std::string& why) const {
    return data_error(fmt::format("{}: {} {}", file_, place, why));
  }

 private:
  const std::string& file_;
  Vocabulary vocabulary_;
  std::vector<bool> taken_;
  size_t limit_ = 0;
};

AddedToken read_added_token(const Field& field) {
  field.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  const int64_t id = field.at("id").integer();
  if (id < 0 || id >= kMostIds) throw field.at("id").refusal("is no id");
  token.id = static_cast<int32_t>(id);
  token.content = field.at("content").text();
  if (token.content.empty()) throw field.refusal("is an added token that is empty");
  token.single_word = field.flag_or("single_word", false);
  token.lstrip = field.flag_or("lstrip", false);
  token.rstrip = field.flag_or("rstrip", false);
  token.special = field.flag_or("special", false);
  token.normalized = field.flag_or("normalized", !token.special);
  return token;
}

}  // namespace

int32_t Vocabulary::id_of(const std::string& token) const {
  for (const AddedToken& one : added) {
    if (one.content == token) return one.id;
  }
  return model_id(token);
}

Vocabulary read_vocabulary(const Field& root, TokenizerJson& json, const std::string& file) {
  const auto list = root.find("added_tokens");
  const std::vector<Field> fields = list ? list->items() : std::vector<Field>();
  Builder builder(file, json.vocab.size() + fields.size());
  builder.limit(json.vocab.size() + fields.size());
  Vocabulary& vocabulary = builder.vocabulary();
  vocabulary.model_ids.reserve(json.vocab.size());
  for (auto& [token, id] : json.vocab) {
    builder.put(id, token, "model.vocab");
    if (!vocabulary.model_ids.emplace(std::move(token), static_cast<int32_t>(id)).second) {
      throw builder.refusal("model.vocab", fmt::format("has the token of the id {} twice", id));
    }
  }
  auto next = static_cast<int32_t>(json.vocab.size());  // id of an added token
  json.vocab = {};
  std::unordered_map<std::string, int32_t> contents;
  for (const Field& field : fields) {
    AddedToken token = read_added_token(field);
    if (!contents.emplace(token.content, token.id).second) {
      throw field.refusal(fmt::format("adds {} for a second time", shown(token.content)));
    }
    const int32_t known = vocabulary.model_id(token.content);
    if (known < 0) {
      builder.put(token.id, token.content, field.place());
      // The reference does not go by the file's ids: it counts.
      if (token.id != next) {
        throw field.refusal(
            fmt::format("gives {} the id {} where {} is next: Hugging Face's library gives added "
                        "tokens ids behind the vocabulary, in their order",
                        shown(token.content), token.id, next));
      }
      ++next;
    } else if (known != token.id) {
      throw field.refusal(fmt::format("gives {} the id {}, but model.vocab gives it {}",
                                      shown(token.content), token.id, known));
    }
    vocabulary.added.push_back(std::move(token));
  }
  Vocabulary finished = builder.finish();
  finished.special.resize(finished.tokens.size());
  for (const AddedToken& token : finished.added) {
    if (token.special) finished.special[static_cast<size_t>(token.id)] = true;
  }
  return finished;
}

}  // namespace athanor::data::hf
