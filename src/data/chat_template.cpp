#include "data/chat_template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

namespace athanor::data {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kTurnBegin = "<|im_start|>";

/// The template in a tokenizer_config.json: a text, or the one of several that is named "default".
std::optional<std::string> configured(const std::string& content) {
  const nlohmann::json config = nlohmann::json::parse(content, nullptr, false);
  if (!config.is_object() || !config.contains("chat_template")) return std::nullopt;
  const nlohmann::json& found = config["chat_template"];
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return std::nullopt;
  for (const nlohmann::json& one : found) {
    if (one.is_object() && one.contains("name") && one["name"] == "default" &&
        one.contains("template") && one["template"].is_string()) {
      return one["template"].get<std::string>();
    }
  }
  return std::nullopt;
}

/// Where the template is, and its text.
std::pair<std::string, std::string> find_template(const fs::path& folder) {
  const fs::path file = folder / kTemplateFile;
  if (fs::exists(file)) return {file.string(), read_file(file)};
  const fs::path config = folder / kConfigFile;
  if (fs::exists(config)) {
    if (auto text = configured(read_file(config))) {
      return {config.string() + ": chat_template", *std::move(text)};
    }
  }
  throw data_error(fmt::format(
      "{}: no chat template: neither {}, nor chat_template in {}; this model takes plain text",
      folder.string(), kTemplateFile, kConfigFile));
}

Error refusal(const std::string& where, const std::exception& why) {
  return data_error(
      fmt::format("{}: this chat template cannot be followed: it has {}", where, why.what()));
}

jinja::Template read_template(const std::string& where, const std::string& text) {
  try {
    return jinja::Template(text);
  } catch (const std::invalid_argument& error) {
    throw refusal(where, error);
  }
}

std::string turn(const ChatMessage& message) {
  return fmt::format("{}{}\n{}{}\n", kTurnBegin, message.role, message.content, kTurnEnd);
}

}  // namespace

ChatTemplate::ChatTemplate(const fs::path& folder, const Tokenizer& tokenizer)
    : ChatTemplate(find_template(folder), tokenizer) {}

ChatTemplate::ChatTemplate(std::pair<std::string, std::string> found, const Tokenizer& tokenizer)
    : where_(std::move(found.first)), template_(read_template(where_, found.second)) {
  const SpecialIds ids = tokenizer.special();
  for (const auto& [name, id] : {std::pair{"bos_token", ids.bos},
                                 {"eos_token", ids.eos},
                                 {"unk_token", ids.unk},
                                 {"pad_token", ids.pad}}) {
    if (id >= 0) special_[name] = tokenizer.piece(id);
  }
  const std::vector<ChatMessage> probe = {
      {"user", "first"}, {"assistant", "second"}, {"user", "third"}};
  const std::string text = written(probe);
  const std::string turns = turn(probe[0]) + turn(probe[1]) + turn(probe[2]);
  if (text.find(turns + kTurnBegin + "assistant\n") == std::string::npos) {
    throw data_error(fmt::format("{}: this chat template is not ChatML ({}role … {})", where_,
                                 kTurnBegin, kTurnEnd));
  }
}

std::string ChatTemplate::written(std::span<const ChatMessage> messages) const {
  jinja::List list;
  for (const ChatMessage& message : messages) {
    list.emplace_back(jinja::Map{{"role", message.role}, {"content", message.content}});
  }
  jinja::Map names = special_;
  names["messages"] = list;
  names["add_generation_prompt"] = true;
  names["tools"] = jinja::None{};
  names["documents"] = jinja::None{};
  try {
    return template_.render(names);
  } catch (const std::invalid_argument& error) {
    throw refusal(where_, error);
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages) const {
  std::string text = written(messages);
  for (const ChatMessage& message : messages) {
    if (message.role == "system" && text.find(message.content) == std::string::npos) {
      throw data_error(where_ + ": this chat template leaves the system's turn out");
    }
  }
  return text;
}

}  // namespace athanor::data
