#include "data/byte_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "data/hf/byte_level.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kBos = 256;
constexpr int32_t kEos = 257;
constexpr const char* kBosText = "<s>";
constexpr const char* kEosText = "</s>";

Json special_token(int32_t id, const char* text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

class ByteStream : public StreamDecoder {
 public:
  explicit ByteStream(bool skip_special) : skip_special_(skip_special) {}
  std::string push(int32_t id) override {
    std::string out;
    if (id >= 0 && id < 256) {
      repair_.push(static_cast<unsigned char>(id), out);
    } else if (!skip_special_ && (id == kBos || id == kEos)) {
      for (const char c : std::string_view(id == kBos ? kBosText : kEosText)) {
        repair_.push(static_cast<unsigned char>(c), out);
      }
    }
    return out;
  }
  std::string finish() override {
    std::string out;
    repair_.finish(out);
    return out;
  }

 private:
  bool skip_special_;
  Utf8Repair repair_{Utf8Repair::Policy::kMaximalPart};
};

class ByteTokenizer : public Tokenizer {
 public:
  TokenizerKind kind() const override { return TokenizerKind::kBytes; }
  int32_t vocab_size() const override { return 258; }
  SpecialIds special() const override { return {-1, kBos, kEos, -1}; }
  const std::string& identity() const override { return identity_; }
  std::string piece(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw usage_error(fmt::format("token {} is outside the vocabulary of {}", id, vocab_size()));
    }
    if (id >= kBos) return id == kBos ? kBosText : kEosText;
    return fmt::format("<0x{:02X}>", id);
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    const size_t valid = valid_utf8_prefix(text);
    if (valid != text.size()) {
      throw data_error(fmt::format("the text is not UTF-8 at byte {}", valid));
    }
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special) const override {
    return std::make_unique<ByteStream>(skip_special);
  }
  std::vector<std::pair<std::string, std::string>> files() const override {
    const Json config = {
        {"tokenizer_class", "TokenizersBackend"}, {"bos_token", kBosText}, {"eos_token", kEosText}};
    return {{"tokenizer.json", byte_tokenizer_json()},
            {"tokenizer_config.json", config.dump(2) + "\n"}};
  }

 private:
  std::string identity_ = [] {
    const std::string json = byte_tokenizer_json();
    return Checksum::of(json.data(), json.size());
  }();
};

}  // namespace

std::string byte_tokenizer_json() {
  Json vocabulary = Json::object();
  const std::array<std::string, 256>& characters = hf::byte_characters();
  for (int byte = 0; byte < 256; ++byte) vocabulary[characters[byte]] = byte;
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {special_token(kBos, kBosText), special_token(kEos, kEosText)}},
      {"normalizer", nullptr},
      {"pre_tokenizer", level},
      {"post_processor", nullptr},
      {"decoder", level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", Json::array()}}}};
  return json.dump(1) + "\n";
}

bool is_byte_tokenizer_json(std::string_view content) {
  // Ordered objects find keys slowly: a vocabulary of thousands is not even parsed.
  if (content.size() > 4 * byte_tokenizer_json().size()) return false;
  const Json theirs = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!theirs.is_object()) return false;
  const Json ours = Json::parse(byte_tokenizer_json());
  const auto part = [](const Json& json, const char* a, const char* b) {
    const auto outer = json.find(a);
    if (outer == json.end() || !outer->is_object()) return nlohmann::json();
    const auto inner = outer->find(b);
    // As an unordered value: objects are compared by keys, whatever their order.
    return inner == outer->end() ? nlohmann::json() : nlohmann::json::parse(inner->dump());
  };
  for (const auto& [outer, inner] : {std::pair{"model", "type"},
                                     {"model", "vocab"},
                                     {"model", "merges"},
                                     {"pre_tokenizer", "type"},
                                     {"pre_tokenizer", "add_prefix_space"},
                                     {"pre_tokenizer", "use_regex"},
                                     {"decoder", "type"}}) {
    if (part(theirs, outer, inner) != part(ours, outer, inner)) return false;
  }
  if (!theirs.contains("normalizer") || !theirs["normalizer"].is_null()) return false;
  if (!theirs.contains("added_tokens") || !theirs["added_tokens"].is_array()) return false;
  const Json& added = theirs["added_tokens"];
  if (added.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (!added[i].is_object() || added[i].value("id", Json()) != ours["added_tokens"][i]["id"] ||
        added[i].value("content", Json()) != ours["added_tokens"][i]["content"]) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace athanor::data
