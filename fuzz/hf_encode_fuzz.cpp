// Texts for tokenizer.json tokenizers: encoding loses nothing, and the matchers written by hand split as the regular
// expressions do that they stand for.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/hf/byte_level.h"
#include "data/hf/known_patterns.h"
#include "data/hf/pattern.h"
#include "data/hf/tokenizer.h"
#include "data/utf8.h"

namespace {

using namespace athanor::data;  // NOLINT(google-build-using-namespace)
using Json = nlohmann::ordered_json;

constexpr const char* kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::unique_ptr<Tokenizer> byte_level_tokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[hf::byte_characters()[byte]] = byte;
  Json merges = Json::array();
  for (const auto& [left, right] :
       {std::pair{"t", "h"}, {"th", "e"}, {"\u0120", "the"}, {"a", "a"}, {"aa", "aa"}}) {
    vocab[std::string(left) + right] = vocab.size();
    merges.push_back({left, right});
  }
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const Json json = {{"pre_tokenizer", level},
                     {"decoder", level},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  return make_hf_tokenizer({{"tokenizer.json", json.dump()}}, "t.json");
}

/// One pattern, by hand and by its regular expression.
class Splitter {
 public:
  explicit Splitter(const char* regex)
      : known_(*hf::known_pattern(regex)), pattern_(hf::regex_pattern(regex)) {}
  void check(std::string_view text) const {
    std::vector<size_t> by_hand;
    hf::each_word(known_, text, [&](size_t, size_t end) { by_hand.push_back(end); });
    std::vector<size_t> by_regex;
    pattern_->each_match(text, [&](size_t, size_t end) { by_regex.push_back(end); });
    if (by_hand != by_regex) std::abort();
  }

 private:
  hf::KnownPattern known_;
  std::unique_ptr<hf::Pattern> pattern_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const auto tokenizer = byte_level_tokenizer();
  static const Splitter splitters[] = {Splitter(hf::kGpt2Regex), Splitter(kCl100k),
                                       Splitter(kO200k)};
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  text = text.substr(0, valid_utf8_prefix(text));
  for (const Splitter& splitter : splitters) splitter.check(text);
  const std::vector<int32_t> ids = tokenizer->encode(text);
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
  }
  if (tokenizer->decode(ids, false) != text) std::abort();
  return 0;
}
