#include "data/hf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "base/checksum.h"
#include "data/hf/added_tokens.h"
#include "data/hf/bpe.h"
#include "data/hf/decoder.h"
#include "data/hf/json_fields.h"
#include "data/hf/normalizer.h"
#include "data/hf/post_processor.h"
#include "data/hf/pre_tokenizer.h"
#include "data/hf/safe_cuts.h"
#include "data/hf/special_tokens.h"
#include "data/hf/vocabulary.h"
#include "data/utf8.h"

namespace athanor::data {
namespace hf {
namespace {

/// The states of threads that encode, handed out and taken back: words are remembered from text to text.
class StatePool {
 public:
  std::unique_ptr<BpeState> acquire() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::make_unique<BpeState>();
    std::unique_ptr<BpeState> state = std::move(free_.back());
    free_.pop_back();
    return state;
  }
  void give_back(std::unique_ptr<BpeState> state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(state));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<BpeState>> free_;
};

/// The last sink of a running decoder: the text. Where no decoder is, tokens have spaces between them.
class TextSink : public TokenSink {
 public:
  explicit TextSink(bool spaces) : spaces_(spaces) {}
  void text(std::string_view part) override {
    if (space_due_) out_ += ' ';
    space_due_ = false;
    out_ += part;
  }
  void end_token() override { space_due_ = spaces_; }
  void finish() override { space_due_ = false; }
  std::string take() { return std::exchange(out_, {}); }

 private:
  bool spaces_;
  bool space_due_ = false;
  std::string out_;
};

class Stream : public StreamDecoder {
 public:
  /// `spaces` between tokens: where the file has no decoder.
  Stream(const Vocabulary& vocabulary, const std::vector<std::unique_ptr<Decoder>>& decoders,
         bool spaces, bool skip_special)
      : vocabulary_(vocabulary), skip_special_(skip_special), text_(spaces) {
    first_ = &text_;
    for (auto step = decoders.rbegin(); step != decoders.rend(); ++step) {
      steps_.push_back((*step)->start(*first_));
      first_ = steps_.back().get();
    }
  }
  std::string push(int32_t id) override {
    if (id < 0 || static_cast<size_t>(id) >= vocabulary_.tokens.size()) return "";
    const auto at = static_cast<size_t>(id);
    if (skip_special_ && vocabulary_.special[at]) return "";
    any_ = true;
    first_->text(vocabulary_.tokens[at]);
    first_->end_token();
    return text_.take();
  }
  std::string finish() override {
    if (!std::exchange(any_, false)) return "";  // of no token no step makes anything
    first_->finish();
    return text_.take();
  }

 private:
  const Vocabulary& vocabulary_;
  bool skip_special_;
  bool any_ = false;  // token since the beginning
  TextSink text_;
  std::vector<std::unique_ptr<TokenSink>> steps_;
  TokenSink* first_;
};

/// Gives added tokens their spelling: normalized ones what the normalizer makes of their content.
void spell(std::vector<AddedToken>& tokens, const Normalizer* normalizer, const std::string& name) {
  for (AddedToken& token : tokens) {
    std::string buffer;
    Piece piece{token.content, true};
    if (token.normalized && normalizer != nullptr) normalizer->apply(piece, buffer);
    if (piece.text.empty()) {
      throw data_error(fmt::format("{}: the added token {} is empty after normalization", name,
                                   shown(token.content)));
    }
    token.spelling = piece.text;
  }
}

std::unique_ptr<AddedTokenMatcher> matcher_of(const std::vector<AddedToken>& all, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const bool special :
       {true, false}) {  // of those spelled alike the first wins: a special one
    for (const AddedToken& token : all) {
      if (token.normalized == normalized && token.special == special) tokens.push_back(token);
    }
  }
  return std::make_unique<AddedTokenMatcher>(std::move(tokens));
}

/// What ids are decoded to. A token is left out as special by its spelling, as in the reference: a special one that its
/// normalizer changed is not, another that is spelled as one is.
void decode_spellings(Vocabulary& vocabulary) {
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : vocabulary.added) {
    vocabulary.tokens[static_cast<size_t>(token.id)] = token.spelling;
    if (token.special) special.insert(token.content);
  }
  for (const AddedToken& token : vocabulary.added) {
    vocabulary.special[static_cast<size_t>(token.id)] = special.contains(token.spelling);
  }
}

/// A tokenizer_config.json for a file that came without one: what was found out about its special tokens.
std::string config_of(const Vocabulary& vocabulary, const SpecialIds& special) {
  nlohmann::ordered_json config = {{"tokenizer_class", "TokenizersBackend"}};
  for (const auto& [key, id] : {std::pair{"unk_token", special.unk},
                                {"bos_token", special.bos},
                                {"eos_token", special.eos},
                                {"pad_token", special.pad}}) {
    if (id >= 0) config[key] = vocabulary.tokens[static_cast<size_t>(id)];
  }
  return config.dump(2) + "\n";
}

/// Words of bytes may begin and end inside a character.
std::string repaired(std::string_view bytes) {
  std::string out;
  Utf8Repair repair(Utf8Repair::Policy::kMaximalPart);
  for (const char byte : bytes) repair.push(static_cast<unsigned char>(byte), out);
  repair.finish(out);
  return out;
}

class HfTokenizer : public Tokenizer {
 public:
  HfTokenizer(TokenizerFiles files, const std::string& name) : files_(std::move(files)) {
    const std::string& content = files_.front().second;
    const size_t valid = valid_utf8_prefix(content);
    if (valid != content.size()) {
      throw data_error(fmt::format("{}: not UTF-8 at byte {}", name, valid));
    }
    identity_ = Checksum::of(content.data(), content.size());
    TokenizerJson json = parse_tokenizer_json(content, name);
    const Field root(json.root, name, "");
    root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    for (const char* key : {"truncation", "padding"}) {
      if (const auto field = root.find(key)) {
        throw field->refusal("is asked for, which is not known: set it to null");
      }
    }
    const Field model = root.at("model");
    if (const std::string type = model.type(); !type.empty() && type != "BPE") {
      throw model.refusal(
          fmt::format("is of the type {}, which is not known: BPE alone is", shown(type)));
    }
    if (const auto field = root.find("normalizer")) normalizer_ = read_normalizer(*field);
    if (const auto field = root.find("pre_tokenizer")) {
      ReadPreTokenizer read = read_pre_tokenizer(*field);
      if (read.asks_for_first && normalizer_ != nullptr) {
        throw field->refusal(
            "has a Metaspace with the prepend_scheme \"first\" behind another step, which is not "
            "known together with a normalizer");
      }
      // Gemma splits at a character of which its normalizer has left none.
      const auto pattern = field->find("pattern");
      const auto literal = pattern ? pattern->find("String") : std::nullopt;
      if (!literal || normalizer_ == nullptr || !normalizer_->removes(literal->text())) {
        pre_tokenizer_ = std::move(read.pre_tokenizer);
      }
      byte_level_ = read.byte_level;
    }
    if (const auto field = root.find("decoder")) {
      decoders_ = read_decoder(*field);
      has_decoder_ = true;
    }
    vocabulary_ = read_vocabulary(root, json, name);
    model_ = std::make_unique<Bpe>(model, json, vocabulary_, byte_level_);
    if (const auto field = root.find("post_processor")) {
      frame_ = read_post_processor(*field, vocabulary_);
    }
    spell(vocabulary_.added, normalizer_.get(), name);
    raw_tokens_ = matcher_of(vocabulary_.added, false);
    normalized_tokens_ = matcher_of(vocabulary_.added, true);
    const auto config = std::find_if(files_.begin(), files_.end(), [](const auto& file) {
      return file.first == kTokenizerCompanions[0];
    });
    const bool configured = config != files_.end();
    special_ =
        find_special_ids(vocabulary_, frame_, model_->unk(), configured ? config->second : "",
                         name + "'s " + kTokenizerCompanions[0]);
    if (!configured) files_.emplace_back(kTokenizerCompanions[0], config_of(vocabulary_, special_));
    decode_spellings(vocabulary_);
    cuts_ = SafeCuts(normalizer_.get(), pre_tokenizer_.get(), *model_, *raw_tokens_,
                     *normalized_tokens_);
    describe(json, root);
  }

  TokenizerKind kind() const override { return TokenizerKind::kBpe; }
  int32_t vocab_size() const override { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  SpecialIds special() const override { return special_; }
  const std::string& identity() const override { return identity_; }
  std::string piece(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw usage_error(fmt::format("token {} is outside the vocabulary of {}", id, vocab_size()));
    }
    return vocabulary_.tokens[static_cast<size_t>(id)];
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    require_utf8(text);
    std::unique_ptr<BpeState> state = pool_.acquire();
    IdBuffer ids;
    ids.room(text.size() / 3 + 16);
    walk(
        text, [&](int32_t id) { ids.push(id); },
        [&](std::string_view word, size_t readable) {
          model_->encode(word, readable, *state, ids);
        });
    pool_.give_back(std::move(state));
    return ids.take();
  }
  std::vector<std::string> words(std::string_view text) const override {
    require_utf8(text);
    std::vector<std::string> words;
    walk(
        text, [&](int32_t id) { words.push_back(vocabulary_.tokens[static_cast<size_t>(id)]); },
        [&](std::string_view word, size_t) { words.push_back(repaired(word)); });
    return words;
  }
  std::vector<std::pair<std::string, std::string>> steps() const override { return steps_; }
  std::vector<size_t> safe_cuts(std::string_view text, size_t part_bytes) const override {
    return cuts_.find(text, part_bytes);
  }

  void add_special(std::vector<int32_t>& ids) const override {
    ids.insert(ids.begin(), frame_.front.begin(), frame_.front.end());
    ids.insert(ids.end(), frame_.back.begin(), frame_.back.end());
  }

  std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special) const override {
    return std::make_unique<Stream>(vocabulary_, decoders_, !has_decoder_, skip_special);
  }

  std::vector<std::pair<std::string, std::string>> files() const override { return files_; }

 private:
  static void require_utf8(std::string_view text) {
    const size_t valid = valid_utf8_prefix(text);
    if (valid != text.size()) {
      throw data_error(fmt::format("the text is not UTF-8 at byte {}", valid));
    }
  }

  void describe(const TokenizerJson& json, const Field& root) {
    steps_.emplace_back("added tokens", std::to_string(vocabulary_.added.size()));
    for (const char* key : {"normalizer", "pre_tokenizer"}) {
      if (const auto field = root.find(key)) steps_.emplace_back(key, field->value().dump());
    }
    steps_.emplace_back("model", root.at("model").value().dump());
    steps_.emplace_back("merges", std::to_string(json.merges.size()));
    for (const char* key : {"post_processor", "decoder"}) {
      if (const auto field = root.find(key)) steps_.emplace_back(key, field->value().dump());
    }
  }

  /// Calls token(id) for added tokens and word(text, readable) for what the model is to encode, in order.
  template <class OnToken, class OnWord>
  void walk(std::string_view text, OnToken token, OnWord word) const {
    std::string buffer;
    raw_tokens_->each_part(text, [&](size_t begin, size_t end, int32_t id) {
      if (id >= 0) return token(id);
      Piece piece{text.substr(begin, end - begin), begin == 0};
      if (normalizer_ != nullptr) normalizer_->apply(piece, buffer);
      if (normalized_tokens_->empty()) return walk_words(piece, word);
      normalized_tokens_->each_part(piece.text, [&](size_t from, size_t to, int32_t inner) {
        if (inner >= 0) return token(inner);
        walk_words({piece.text.substr(from, to - from), piece.first && from == 0}, word);
      });
    });
  }
  template <class OnWord>
  void walk_words(const Piece& part, OnWord word) const {
    if (part.text.empty()) return;
    if (pre_tokenizer_ == nullptr) return word(part.text, part.text.size());
    const char* begin = part.text.data();
    const char* end = begin + part.text.size();
    pre_tokenizer_->split(part, [&](const Piece& piece) {
      // A word that lies in the part has the rest of the part behind it; any other is alone.
      const char* at = piece.text.data();
      const bool inside = at >= begin && at < end;
      word(piece.text, inside ? static_cast<size_t>(end - at) : piece.text.size());
    });
  }

  TokenizerFiles files_;
  std::string identity_;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  bool byte_level_ = false;
  bool has_decoder_ = false;
  std::vector<std::unique_ptr<Decoder>> decoders_;  // none in an empty sequence, too
  Vocabulary vocabulary_;
  std::unique_ptr<Bpe> model_;
  SpecialFrame frame_;
  std::unique_ptr<AddedTokenMatcher> raw_tokens_;
  std::unique_ptr<AddedTokenMatcher> normalized_tokens_;
  SpecialIds special_;
  SafeCuts cuts_;
  std::vector<std::pair<std::string, std::string>> steps_;
  mutable StatePool pool_;
};

}  // namespace
}  // namespace hf

std::unique_ptr<Tokenizer> make_hf_tokenizer(TokenizerFiles files, const std::string& name) {
  return std::make_unique<hf::HfTokenizer>(std::move(files), name);
}

}  // namespace athanor::data
