#include "data/sentencepiece_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "data/hf/space_mark.h"

namespace athanor::data {
namespace {

using Json = nlohmann::ordered_json;
using hf::kSpaceMark;

Json added_token(int32_t id, const Piece& piece, bool special) {
  return {{"id", id},        {"content", piece.text}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},   {"special", special}};
}

bool is_special(const Piece& piece) {
  return piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
}

/// The merges of a BPE model: every split of a normal piece into two normal pieces. SentencePiece
/// joins the pair whose result has the best score first, so merges are ordered by that.
Json merges_of(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kNormal) {
      ids.emplace(model.pieces[id].text, static_cast<int32_t>(id));
    }
  }
  std::vector<std::tuple<float, int32_t, int32_t, int32_t>> merges;  // −score, id, left, right
  for (const auto& [text, id] : ids) {
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut));
      const auto right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.emplace_back(-model.pieces[static_cast<size_t>(id)].score, id, left->second,
                          right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  Json json = Json::array();
  for (const auto& [score, id, left, right] : merges) {
    json.push_back({model.pieces[static_cast<size_t>(left)].text,
                    model.pieces[static_cast<size_t>(right)].text});
  }
  return json;
}

Json unigram_json(const SentencePieceModel& model) {
  Json vocabulary = Json::array();
  for (const Piece& piece : model.pieces) {
    vocabulary.push_back({piece.text, static_cast<double>(piece.score)});
  }
  return {{"type", "Unigram"},
          {"unk_id", model.special.unk},
          {"vocab", std::move(vocabulary)},
          {"byte_fallback", model.byte_fallback}};
}

Json bpe_json(const SentencePieceModel& model, bool user_symbols) {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    vocabulary[model.pieces[id].text] = id;
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.pieces[static_cast<size_t>(model.special.unk)].text},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          // A user symbol is a word of its own, which no merge makes.
          {"ignore_merges", user_symbols},
          {"vocab", std::move(vocabulary)},
          {"merges", merges_of(model)}};
}

/// Cuts user symbols out of the text: leftmost, and the longest of those that begin there.
Json split_user_symbols(std::vector<std::string> symbols) {
  std::sort(symbols.begin(), symbols.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::string pattern;
  for (const std::string& symbol : symbols) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : symbol) {
      if (std::string_view("\\^$.|?*+()[]{}-#&~ ").find(c) != std::string_view::npos)
        pattern += '\\';
      pattern += c;
    }
  }
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

std::string tokenizer_json(const SentencePieceModel& model) {
  Json added = Json::array();
  std::vector<std::string> user_symbols;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (is_special(piece)) added.push_back(added_token(static_cast<int32_t>(id), piece, true));
    if (piece.type == PieceType::kUserDefined) user_symbols.push_back(piece.text);
  }
  const Json replace_space = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  const Json replace_mark = {
      {"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", replace_space},
      {"pre_tokenizer", user_symbols.empty() ? Json() : split_user_symbols(user_symbols)},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders", {replace_mark, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
      {"model", model.kind == TokenizerKind::kUnigram ? unigram_json(model)
                                                      : bpe_json(model, !user_symbols.empty())}};
  return json.dump(1) + "\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> sentencepiece_files(
    const SentencePieceModel& model, const std::string& content) {
  std::vector<std::pair<std::string, std::string>> files = {{"tokenizer.model", content}};
  if (!model.keeps_text()) return files;
  Json config = {{"tokenizer_class", "TokenizersBackend"}};
  const auto name = [&](const char* key, int32_t id) {
    if (id >= 0) config[key] = model.pieces[static_cast<size_t>(id)].text;
  };
  name("unk_token", model.special.unk);
  name("bos_token", model.special.bos);
  name("eos_token", model.special.eos);
  name("pad_token", model.special.pad);
  files.emplace_back("tokenizer.json", tokenizer_json(model));
  files.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  return files;
}

}  // namespace athanor::data
