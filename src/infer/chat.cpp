#include "infer/chat.h"

#include <algorithm>

#include "infer/text_writer.h"

namespace athanor::infer {
namespace {

constexpr int64_t kLeastCapacity = 1024;  // tokens: a conversation of a few turns

Work sequence_work(int64_t capacity) {
  return [capacity](ops::Context& ctx, model::Model& model, Arena& activations) {
    const int64_t chunk = std::min(kPrefillChunk, capacity);
    Sequences sequence(ctx, model, activations, 1, capacity, chunk);
    sequence.plan(chunk);
    sequence.plan(1);
  };
}

}  // namespace

Chat::Chat(const fs::path& model, const std::optional<std::string>& system,
           const WritingOptions& writing)
    : files_(open_model_files(model)),
      writing_(writing),
      template_(files_.opened.directory, files_.require_tokenizer()) {
  check_writing(files_, writing_);
  if (system) messages_.push_back({"system", *system});
}

std::vector<int32_t> Chat::conversation_ids() {
  const std::string text = template_.render(messages_);
  const data::Tokenizer& tokenizer = *files_.tokenizer;
  std::vector<int32_t> ids;
  if (!held_text_.empty() && text.starts_with(held_text_)) {
    // What follows begins with a token of its own: the end of the answer's turn.
    ids = held_;
    const std::vector<int32_t> more =
        tokenizer.encode(std::string_view(text).substr(held_text_.size()));
    ids.insert(ids.end(), more.begin(), more.end());
  } else {
    ids = tokenizer.encode(text);
    held_.clear();
  }
  held_text_ = text;
  return ids;
}

void Chat::reserve(int64_t tokens) {
  if (sequence_ && tokens <= sequence_->capacity()) return;
  const int64_t most = files_.config().max_positions;
  const int64_t capacity = std::min(most, std::max(2 * tokens, kLeastCapacity));
  sequence_.reset();
  held_.clear();
  if (session_) {
    session_->make_room(sequence_work(capacity));
  } else {
    session_.emplace(files_, writing_.precision, most, sequence_work(capacity));
  }
  sequence_.emplace(session_->context(), session_->model(), session_->activations(), 1, capacity,
                    std::min(kPrefillChunk, capacity));
}

void Chat::read(std::span<const int32_t> ids) {
  for (size_t begin = 0; begin < ids.size(); begin += kPrefillChunk) {
    const size_t count = std::min(ids.size() - begin, static_cast<size_t>(kPrefillChunk));
    sequence_->add(0, ids.subspan(begin, count));
    sequence_->run();
  }
  held_.insert(held_.end(), ids.begin(), ids.end());
  tokens_read_ += static_cast<int64_t>(ids.size());
}

std::string Chat::answer(const std::string& question,
                         const std::function<void(std::string_view)>& emit) {
  messages_.push_back({"user", question});
  Prompt prompt;
  std::vector<std::string> stop = writing_.stop;
  try {
    prompt = make_prompt(files_, conversation_ids(), writing_, std::nullopt);
    stop_at_turn_end(files_, prompt.options, stop);
    reserve(static_cast<int64_t>(prompt.ids.size()) + prompt.options.max_tokens);
  } catch (...) {
    messages_.pop_back();
    held_text_.clear();
    throw;
  }
  if (held_.empty()) sequence_->reset(0);
  read(std::span(prompt.ids).subspan(held_.size()));

  SamplingOptions sampling = writing_.sampling;
  sampling.seed += turn_++;
  Sampler sampler(sampling);
  TextWriter writer(files_.tokenizer.get(), prompt.options, stop);
  const std::vector<int32_t>& ends = prompt.options.stop_tokens;
  bool ended = false;
  while (true) {
    const int32_t token = sampler.sample(sequence_->logits(0));
    if (const std::string piece = writer.push(token); !piece.empty()) emit(piece);
    ended = std::find(ends.begin(), ends.end(), token) != ends.end();
    const bool full = static_cast<int64_t>(writer.ids().size()) == prompt.options.max_tokens;
    if (ended || writer.stopped() || full) break;
    read({&token, 1});
  }
  if (const std::string rest = writer.finish(); !rest.empty()) emit(rest);
  messages_.push_back({"assistant", *writer.text()});
  // Where the answer is what was shown, the next turn goes on from here; its last token has not been read.
  held_text_ = ended ? held_text_ + *writer.text() : "";
  return *writer.text();
}

}  // namespace athanor::infer
