// A conversation as the text that a chat model was trained with.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "data/jinja/template.h"
#include "data/tokenizer.h"

namespace athanor::data {

struct ChatMessage {
  std::string role;  ///< "system" (the first alone), "user" or "assistant"
  std::string content;
};

inline constexpr const char* kTurnEnd = "<|im_end|>";

/// A ChatML template: turns of <|im_start|>role, a line break, the content and <|im_end|>.
class ChatTemplate {
 public:
  /// The template beside a tokenizer: chat_template.jinja, or `chat_template` of tokenizer_config.json. Throws kData where
  /// there is none, where it uses what is not known (data/jinja), or where it writes anything else than ChatML.
  ChatTemplate(const fs::path& folder, const Tokenizer& tokenizer);

  /// The text of a conversation that the assistant is to continue; what Hugging Face's apply_chat_template gives with
  /// add_generation_prompt. Throws kData for messages that the template refuses or leaves out.
  std::string render(std::span<const ChatMessage> messages) const;

 private:
  /// `found`: where the template is, and its text.
  ChatTemplate(std::pair<std::string, std::string> found, const Tokenizer& tokenizer);
  std::string written(std::span<const ChatMessage> messages) const;

  std::string where_;
  jinja::Template template_;
  jinja::Map special_;  // bos_token …
};

}  // namespace athanor::data
