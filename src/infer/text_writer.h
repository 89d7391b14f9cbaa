// Tokens to text as it is shown: whole characters, up to a stop string.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "infer/generate.h"
#include "infer/stop_strings.h"

namespace athanor::infer {

/// What a text is shown of, token by token. Without a tokenizer: "17", ",4" …
class TextWriter {
 public:
  /// `tokenizer` may be null; then there are no stop strings.
  TextWriter(const data::Tokenizer* tokenizer, const GenerationOptions& options,
             const std::vector<std::string>& stop_strings);

  /// What is to be shown with this token more: whole UTF-8 characters. Of a stop token nothing is.
  std::string push(int32_t token);
  /// The rest.
  std::string finish();
  /// A stop string has come: nothing more is shown.
  bool stopped() const { return stop_.stopped(); }

  /// All tokens, stop tokens included.
  const std::vector<int32_t>& ids() const { return ids_; }
  /// All that was shown; none without a tokenizer.
  const std::optional<std::string>& text() const { return text_; }

 private:
  std::string show(std::string piece);

  std::unique_ptr<data::StreamDecoder> decoder_;
  std::vector<int32_t> stop_tokens_;
  StopStrings stop_;
  std::vector<int32_t> ids_;
  std::optional<std::string> text_;
};

/// "eos", "stop" or "length". A stop string that only the end of the text shows counts as one.
const char* finish_reason(Ending ending, const TextWriter& writer);

}  // namespace athanor::infer
