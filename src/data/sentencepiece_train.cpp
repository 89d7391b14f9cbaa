#include "data/sentencepiece_train.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "data/document_sample.h"
#include "data/sentencepiece_tokenizer.h"

namespace athanor::data {
namespace {

using SentencePiece = sentencepiece::SentencePieceTrainer;

/// The ids of <unk>, <s>, </s> and the bytes.
constexpr int32_t kReservedIds = 3 + 256;

/// Hands the trainer texts as its sentences. It learns pieces from words, so texts are cut, without
/// loss, before newlines (a piece may begin with one) and, where they are long, before spaces.
/// Characters that it reserves for itself (it would drop the whole sentence) are left out: they
/// become byte pieces in encoding, as all rare ones.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& texts) : texts_(texts) { Next(); }
  bool done() const override { return done_; }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    value_.clear();
    while (value_.empty()) {
      if (text_ == texts_.size()) {
        done_ = true;
        return;
      }
      const std::string& text = texts_[text_];
      if (at_ == text.size()) {
        ++text_;
        at_ = 0;
        continue;
      }
      take_sentence(text);
    }
  }

 private:
  static constexpr size_t kLongSentence = 2000;

  void take_sentence(const std::string& text) {
    const size_t begin = at_;
    while (at_ < text.size()) {
      const size_t reserved = reserved_bytes(text);
      if (reserved > 0) {
        at_ += reserved;
        if (!value_.empty()) return;
        continue;
      }
      if (at_ > begin && !value_.empty()) {
        const bool newline = text[at_] == '\n' && text[at_ - 1] != '\n';
        const bool space = text[at_] == ' ' && text[at_ - 1] != ' ';
        if (newline || (space && value_.size() > kLongSentence)) return;
      }
      value_ += text[at_++];
    }
  }
  /// Bytes of the reserved character at `at_`, if there is one: NUL, tab, U+2585.
  size_t reserved_bytes(const std::string& text) const {
    if (text[at_] == '\0' || text[at_] == '\t') return 1;
    return text.compare(at_, 3, "\xE2\x96\x85") == 0 ? 3 : 0;
  }

  const std::vector<std::string>& texts_;
  size_t text_ = 0;
  size_t at_ = 0;
  std::string value_;
  bool done_ = false;
};

/// The number behind `words` in the library's message.
std::optional<int32_t> number_after(const std::string& message, std::string_view words) {
  const size_t at = message.find(words);
  if (at == std::string::npos) return std::nullopt;
  const int32_t number = std::atoi(message.c_str() + at + words.size());
  return number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> train_sentencepiece(DocumentReader& documents,
                                               const SentencePieceTraining& options) {
  const std::vector<std::string> texts =
      sample_documents(documents, options.max_bytes, options.seed);
  if (Sentences(texts).done()) throw no_text_error(documents.origin());
  int32_t vocab_size = options.vocab_size;
  if (vocab_size < kReservedIds) {
    throw usage_error(fmt::format(
        "a vocabulary of {} cannot be trained: 3 special tokens and 256 bytes alone take "
        "{} ids",
        vocab_size, kReservedIds));
  }
  while (true) {
    const std::unordered_map<std::string, std::string> arguments = {
        {"model_type", name_of(options.kind)},
        {"vocab_size", std::to_string(vocab_size)},
        {"normalization_rule_name", "identity"},
        {"add_dummy_prefix", "false"},
        {"remove_extra_whitespaces", "false"},
        {"byte_fallback", "true"},
        {"character_coverage", "0.9999"},
        {"max_sentence_length", "1000000000"},
        {"unk_id", "0"},
        {"bos_id", "1"},
        {"eos_id", "2"},
        {"pad_id", "-1"},
        {"num_threads",
         "16"},  // sums are split by this number, so it is fixed, whatever the machine
        {"train_extremely_large_corpus", "true"},
        {"minloglevel", "3"},
    };
    Sentences sentences(texts);
    std::string model;
    const auto status = SentencePiece::Train(arguments, &sentences, &model);
    if (status.ok()) {
      return make_sentencepiece(std::move(model), "the trained model");
    }
    const std::string message = status.error_message();
    if (const auto least =
            number_after(message, fmt::format("required_chars. {} vs ", vocab_size))) {
      throw usage_error(
          fmt::format("a vocabulary of {} cannot be trained: special tokens, bytes and the text's "
                      "characters alone take {} ids",
                      vocab_size, *least));
    }
    const std::optional<int32_t> most = number_after(message, "set it to a value <= ");
    if (!most || *most >= vocab_size) {
      throw usage_error(
          fmt::format("a vocabulary of {} cannot be trained: {}", vocab_size, message));
    }
    log::warning(
        fmt::format("the text supports a vocabulary of {} only, not {}: the smaller one is trained",
                    *most, vocab_size));
    vocab_size = *most;
  }
}

}  // namespace athanor::data
