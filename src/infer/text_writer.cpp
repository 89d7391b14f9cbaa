#include "infer/text_writer.h"

#include <fmt/format.h>

#include <algorithm>

namespace athanor::infer {

TextWriter::TextWriter(const data::Tokenizer* tokenizer, const GenerationOptions& options,
                       const std::vector<std::string>& stop_strings)
    : decoder_(tokenizer == nullptr ? nullptr : tokenizer->stream_decoder()),
      stop_tokens_(options.stop_tokens),
      stop_(stop_strings) {
  if (tokenizer != nullptr) text_.emplace();
}

std::string TextWriter::push(int32_t token) {
  const bool first = ids_.empty();
  ids_.push_back(token);
  if (decoder_ == nullptr) return fmt::format("{}{}", first ? "" : ",", token);
  const bool stop_token =
      std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
  return stop_token ? "" : show(stop_.push(decoder_->push(token)));
}

std::string TextWriter::finish() {
  if (decoder_ == nullptr) return "";
  std::string rest = stop_.push(decoder_->finish());
  return show(rest + stop_.finish());
}

std::string TextWriter::show(std::string piece) {
  *text_ += piece;
  return piece;
}

const char* finish_reason(Ending ending, const TextWriter& writer) {
  if (writer.stopped()) return "stop";
  return ending == Ending::kStopToken ? "eos" : "length";
}

}  // namespace athanor::infer
