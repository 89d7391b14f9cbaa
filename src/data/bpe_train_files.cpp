#include "data/bpe_train_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/hf/space_mark.h"

namespace athanor::data {
namespace {

using Json = nlohmann::ordered_json;

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

/// Words are cut before spaces become marks, so that the pattern knows them as spaces.
Json pre_tokenizer(bool bytes) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", hf::kLlama3Regex}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json marks = {{"type", "Metaspace"},
                      {"replacement", hf::kSpaceMark},
                      {"prepend_scheme", "never"},
                      {"split", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes ? byte_level() : marks}}};
}

Json decoder(bool bytes) {
  if (bytes) return byte_level();
  const Json spaces = {
      {"type", "Replace"}, {"pattern", {{"String", hf::kSpaceMark}}}, {"content", " "}};
  return {{"type", "Sequence"},
          {"decoders", {spaces, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

/// The vocabulary and the merges, which an ordered object would take long to gather, as text.
std::string vocabulary_and_merges(const LearnedBpe& bpe) {
  std::string text = "  \"vocab\": {";
  for (size_t id = 0; id < bpe.tokens.size(); ++id) {
    text += fmt::format("{}\n   {}: {}", id > 0 ? "," : "", quoted(bpe.tokens[id]), id);
  }
  text += "\n  },\n  \"merges\": [";
  for (size_t rank = 0; rank < bpe.merges.size(); ++rank) {
    const auto& [left, right] = bpe.merges[rank];
    text += fmt::format("{}\n   [{}, {}]", rank > 0 ? "," : "",
                        quoted(bpe.tokens[static_cast<size_t>(left)]),
                        quoted(bpe.tokens[static_cast<size_t>(right)]));
  }
  return text + (bpe.merges.empty() ? "]" : "\n  ]");
}

std::string tokenizer_json(const LearnedBpe& bpe) {
  Json added = Json::array();
  for (size_t id = 0; id < bpe.special; ++id) {
    added.push_back({{"id", id},
                     {"content", bpe.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json unk = bpe.unk >= 0 ? Json(bpe.tokens[static_cast<size_t>(bpe.unk)]) : Json();
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", pre_tokenizer(bpe.byte_level)},
                     {"post_processor", nullptr},
                     {"decoder", decoder(bpe.byte_level)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", unk},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", !bpe.byte_level},
                       {"byte_fallback", !bpe.byte_level},
                       {"ignore_merges", false}}}};
  std::string text = json.dump(1);
  const std::string end = "\n }\n}";  // of the model and of the whole
  require(text.ends_with(end), "the model is not the last part of a tokenizer.json");
  text.resize(text.size() - end.size());
  return text + ",\n" + vocabulary_and_merges(bpe) + end + "\n";
}

}  // namespace

TokenizerFiles bpe_files(const LearnedBpe& bpe) {
  Json config = {{"tokenizer_class", "TokenizersBackend"}};
  for (const auto& [key, id] : {std::pair{"unk_token", bpe.unk},
                                {"bos_token", bpe.bos},
                                {"eos_token", bpe.eos},
                                {"pad_token", bpe.pad}}) {
    if (id >= 0) config[key] = bpe.tokens[static_cast<size_t>(id)];
  }
  return {{"tokenizer.json", tokenizer_json(bpe)},
          {kTokenizerCompanions[0], config.dump(2) + "\n"}};
}

}  // namespace athanor::data
