#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/byte_tokenizer.h"
#include "data/sentencepiece_model.h"
#include "data/sentencepiece_tokenizer.h"

namespace athanor::data {
namespace {

constexpr const char* kModelFile = "tokenizer.model";
constexpr const char* kJsonFile = "tokenizer.json";

std::unique_ptr<Tokenizer> load_content(std::string content, const std::string& name) {
  if (looks_like_sentencepiece(content)) return make_sentencepiece(std::move(content), name);
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && content[first] == '{') {
    if (is_byte_tokenizer_json(content)) return make_byte_tokenizer();
    throw data_error(
        name +
        ": a JSON file, but not the byte tokenizer's; of Hugging Face's tokenizer.json files only "
        "that one is read: give the SentencePiece tokenizer.model instead");
  }
  throw data_error(
      name +
      ": not a tokenizer; known are SentencePiece models and the byte tokenizer's tokenizer.json");
}

}  // namespace

const char* name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kBytes:
      return "bytes";
    case TokenizerKind::kUnigram:
      return "unigram";
    case TokenizerKind::kBpe:
      return "bpe";
  }
  throw bug("a tokenizer kind without a name");
}

std::vector<int32_t> Tokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> ids = encode(text);
  const SpecialIds ends = special();
  if (ends.bos >= 0) ids.insert(ids.begin(), ends.bos);
  if (ends.eos >= 0) ids.push_back(ends.eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const std::unique_ptr<StreamDecoder> stream = stream_decoder(skip_special);
  std::string text;
  for (const int32_t id : ids) text += stream->push(id);
  return text + stream->finish();
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    file = path / (fs::exists(path / kModelFile, ignored) ? kModelFile : kJsonFile);
    if (!fs::exists(file, ignored)) {
      throw data_error(
          fmt::format("{}: no {} and no {} in this folder", path.string(), kModelFile, kJsonFile));
    }
  }
  return load_content(read_file(file), file.string());
}

bool holds_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kModelFile, ignored) || fs::exists(folder / kJsonFile, ignored);
}

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts,
                                             const Threads& threads) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  threads.run(static_cast<int64_t>(texts.size()), [&](int64_t i, int) {
    ids[static_cast<size_t>(i)] = tokenizer.encode(texts[static_cast<size_t>(i)]);
  });
  return ids;
}

}  // namespace athanor::data
