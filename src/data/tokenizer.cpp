#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "data/byte_tokenizer.h"
#include "data/hf/tokenizer.h"
#include "data/sentencepiece_model.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

constexpr const char* kModelFile = "tokenizer.model";
constexpr const char* kBlank = " \t\r\n";
constexpr const char* kJsonFile = "tokenizer.json";
constexpr size_t kPartBytes = size_t{1} << 19;  // of a long text: enough to forget what a cut costs

/// A tokenizer.json and the files that belong to it.
TokenizerFiles hf_files(std::string content, const fs::path& file) {
  TokenizerFiles files = {{kJsonFile, std::move(content)}};
  if (file.filename() != kJsonFile) return files;
  std::error_code ignored;
  for (const char* name : kTokenizerCompanions) {
    const fs::path companion = file.parent_path() / name;
    if (fs::exists(companion, ignored)) files.emplace_back(name, read_file(companion));
  }
  return files;
}

/// True for an object's begin. A line break in front of it is also how a SentencePiece model begins.
bool begins_as_json(std::string_view content) {
  const size_t brace = content.find_first_not_of(kBlank);
  if (brace == std::string_view::npos || content[brace] != '{') return false;
  const size_t next = content.find_first_not_of(kBlank, brace + 1);
  return next != std::string_view::npos && (content[next] == '"' || content[next] == '}');
}

std::unique_ptr<Tokenizer> load_content(std::string content, const fs::path& file) {
  const std::string name = file.string();
  if (!begins_as_json(content) && looks_like_sentencepiece(content))
    return make_sentencepiece(std::move(content), name);
  if (content.find_first_not_of(kBlank) != std::string::npos &&
      content[content.find_first_not_of(kBlank)] == '{') {
    if (is_byte_tokenizer_json(content)) return make_byte_tokenizer();
    return make_hf_tokenizer(hf_files(std::move(content), file), name);
  }
  throw data_error(
      name + ": not a tokenizer; known are SentencePiece models and Hugging Face's tokenizer.json");
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

void Tokenizer::add_special(std::vector<int32_t>& ids) const {
  const SpecialIds ends = special();
  if (ends.bos >= 0) ids.insert(ids.begin(), ends.bos);
  if (ends.eos >= 0) ids.push_back(ends.eos);
}

std::vector<std::string> Tokenizer::words(std::string_view text) const {
  return {std::string(text)};
}

std::vector<size_t> Tokenizer::safe_cuts(std::string_view, size_t) const { return {}; }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const std::unique_ptr<StreamDecoder> stream = stream_decoder(skip_special);
  std::string text;
  for (const int32_t id : ids) text += stream->push(id);
  return text + stream->finish();
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return load_content(read_file(path), path);
  const fs::path model = path / kModelFile;
  const fs::path json = path / kJsonFile;
  const bool has_json = fs::exists(json, ignored);
  if (!fs::exists(model, ignored)) {
    if (has_json) return load_content(read_file(json), json);
    throw data_error(
        fmt::format("{}: no {} and no {} in this folder", path.string(), kModelFile, kJsonFile));
  }
  std::unique_ptr<Tokenizer> sentencepiece = load_content(read_file(model), model);
  if (!has_json) return sentencepiece;
  // One of the two was made from the other. Ours is made from the model; elsewhere it is the JSON that people go by, which
  // may know tokens that the model does not.
  std::string content = read_file(json);
  for (const auto& [name, text] : sentencepiece->files()) {
    if (name == kJsonFile && text == content) return sentencepiece;
  }
  try {
    return load_content(std::move(content), json);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) throw;
    log::warning(fmt::format("{}; {} is read instead", error.what(), model.string()));
    return sentencepiece;
  }
}

bool holds_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kModelFile, ignored) || fs::exists(folder / kJsonFile, ignored);
}

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts,
                                             const Threads& threads) {
  struct Part {
    size_t text, begin, end;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t begin = 0;
    if (texts[i].size() >= 2 * kPartBytes && valid_utf8_prefix(texts[i]) == texts[i].size()) {
      for (const size_t cut : tokenizer.safe_cuts(texts[i], kPartBytes)) {
        parts.push_back({i, begin, cut});
        begin = cut;
      }
    }
    parts.push_back({i, begin, texts[i].size()});
  }
  std::vector<std::vector<int32_t>> encoded(parts.size());
  threads.run(static_cast<int64_t>(parts.size()), [&](int64_t i, int) {
    const Part& part = parts[static_cast<size_t>(i)];
    encoded[static_cast<size_t>(i)] = tokenizer.encode(
        std::string_view(texts[part.text]).substr(part.begin, part.end - part.begin));
  });
  std::vector<std::vector<int32_t>> ids(texts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<int32_t>& whole = ids[parts[i].text];
    if (whole.empty()) {
      whole = std::move(encoded[i]);
    } else {
      whole.insert(whole.end(), encoded[i].begin(), encoded[i].end());
    }
  }
  return ids;
}

}  // namespace athanor::data
