// A conversation with a chat model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat_template.h"
#include "infer/prompts.h"
#include "infer/sequences.h"

namespace athanor::infer {

/// Keeps what the model has read from turn to turn, so that an answer costs its own tokens and those of the question.
class Chat {
 public:
  /// Throws kData where the model has no ChatML template that can be followed.
  Chat(const fs::path& model, const std::optional<std::string>& system,
       const WritingOptions& writing);

  /// The answer to a user's turn; `emit` gets it piece by piece, whole UTF-8 characters each. Throws kUsage, with the figures,
  /// where the context cannot hold the conversation any longer.
  std::string answer(const std::string& question,
                     const std::function<void(std::string_view)>& emit);

  /// Tokens that the model has read so far, those twice that it had to read again.
  int64_t tokens_read() const { return tokens_read_; }

 private:
  /// The ids of the whole conversation; what the state already holds is kept of them where the text only grew.
  std::vector<int32_t> conversation_ids();
  void reserve(int64_t tokens);
  void read(std::span<const int32_t> ids);

  ModelFiles files_;
  WritingOptions writing_;
  data::ChatTemplate template_;
  std::vector<data::ChatMessage> messages_;

  std::optional<Session> session_;
  std::optional<Sequences> sequence_;
  std::vector<int32_t> held_;  // ids that the state has read
  std::string held_text_;      // the conversation that they spell; empty where they spell another
  int64_t tokens_read_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace athanor::infer
