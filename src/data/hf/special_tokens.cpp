#include "data/hf/special_tokens.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

namespace athanor::data::hf {
namespace {

/// The first of `names` that is a special token; −1 when none is.
int32_t usual(const Vocabulary& vocabulary, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const int32_t id = vocabulary.id_of(name);
    if (id >= 0 && vocabulary.special[static_cast<size_t>(id)]) return id;
  }
  return -1;
}

/// The token that the config has under `key`: "</s>" or {"content": "</s>", …}.
int32_t configured(const nlohmann::json& config, const char* key, const Vocabulary& vocabulary) {
  if (!config.is_object() || !config.contains(key)) return -1;
  const nlohmann::json& value = config[key];
  if (value.is_string()) return vocabulary.id_of(value.get<std::string>());
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return vocabulary.id_of(value["content"].get<std::string>());
  }
  return -1;
}

}  // namespace

SpecialIds find_special_ids(const Vocabulary& vocabulary, const SpecialFrame& frame, int32_t unk,
                            const std::string& config, const std::string& config_name) {
  nlohmann::json parsed;
  if (!config.empty()) {
    parsed = nlohmann::json::parse(config, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) throw data_error(config_name + " is not a JSON object");
  }
  SpecialIds ids;
  ids.bos = configured(parsed, "bos_token", vocabulary);
  ids.eos = configured(parsed, "eos_token", vocabulary);
  ids.unk = configured(parsed, "unk_token", vocabulary);
  ids.pad = configured(parsed, "pad_token", vocabulary);
  if (ids.unk < 0) ids.unk = unk;
  if (!config.empty()) return ids;
  if (!frame.front.empty()) ids.bos = frame.front.front();
  if (!frame.back.empty()) ids.eos = frame.back.back();
  if (ids.bos < 0)
    ids.bos = usual(vocabulary, {"<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"});
  if (ids.eos < 0) {
    ids.eos = usual(vocabulary, {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"});
  }
  if (ids.pad < 0) ids.pad = usual(vocabulary, {"<pad>", "<|pad|>"});
  return ids;
}

}  // namespace athanor::data::hf
