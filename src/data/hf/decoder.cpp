#include "data/hf/decoder.h"

#include <fmt/format.h>

#include <utility>

#include "data/hf/byte_level.h"
#include "data/hf/pattern.h"
#include "data/hf/unicode.h"
#include "data/utf8.h"

namespace athanor::data::hf {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

/// What most steps need: whole tokens.
class WholeTokens : public TokenSink {
 public:
  explicit WholeTokens(TokenSink& next) : next_(next) {}
  void text(std::string_view part) override { token_ += part; }
  void end_token() override {
    token(token_);
    token_.clear();
  }
  void finish() override { next_.finish(); }

 protected:
  virtual void token(const std::string& token) = 0;
  void pass(std::string_view token) {
    next_.text(token);
    next_.end_token();
  }
  TokenSink& next_;

 private:
  std::string token_;
};

/// A decoder whose running form is Sink(const Decoder&, next).
template <class Self, class Sink>
class DecoderOf : public Decoder {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    return std::make_unique<Sink>(static_cast<const Self&>(*this), next);
  }

 private:
  DecoderOf() = default;
  friend Self;
};

/// All tokens become one text: characters that spell bytes are these bytes, and a token that holds any other is taken as it
/// is. Bytes that make no character become U+FFFD, one for each maximal part.
class ByteLevelSink : public WholeTokens {
 public:
  ByteLevelSink(const Decoder&, TokenSink& next) : WholeTokens(next) {}
  void finish() override {
    std::string out;
    repair_.finish(out);
    if (!out.empty()) next_.text(out);
    next_.end_token();
    next_.finish();
  }

 private:
  void token(const std::string& token) override {
    bytes_.clear();
    if (!append_spelled_bytes(token, bytes_)) bytes_ = token;
    std::string out;
    for (const char byte : bytes_) repair_.push(static_cast<unsigned char>(byte), out);
    if (!out.empty()) next_.text(out);
  }
  Utf8Repair repair_{Utf8Repair::Policy::kMaximalPart};
  std::string bytes_;
};
class ByteLevel : public DecoderOf<ByteLevel, ByteLevelSink> {};

/// The byte of "<0x0A>"; −1 for any other token. The reference reads a sign in the digits, too.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (size_t i = 3; i < 5; ++i) {
    const char c = token[i];
    if (i == 3 && c == '+') continue;
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!letter && !(c >= '0' && c <= '9')) return -1;
    value = value * 16 + (letter ? (c | 32) - 'a' + 10 : c - '0');
  }
  return value;
}

/// A run of byte tokens is one token if it is UTF-8, and else one U+FFFD for each of its bytes.
class ByteFallbackSink : public WholeTokens {
 public:
  ByteFallbackSink(const Decoder&, TokenSink& next) : WholeTokens(next) {}
  void finish() override {
    flush();
    next_.finish();
  }

 private:
  void token(const std::string& token) override {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      bytes_ += static_cast<char>(byte);
      return;
    }
    flush();
    pass(token);
  }
  void flush() {
    if (bytes_.empty()) return;
    if (valid_utf8_prefix(bytes_) == bytes_.size()) {
      pass(bytes_);
    } else {
      for (size_t i = 0; i < bytes_.size(); ++i) pass(kReplacement);
    }
    bytes_.clear();
  }
  std::string bytes_;
};
class ByteFallback : public DecoderOf<ByteFallback, ByteFallbackSink> {};

/// All tokens become one.
class FuseSink : public TokenSink {
 public:
  FuseSink(const Decoder&, TokenSink& next) : next_(next) {}
  void text(std::string_view part) override { next_.text(part); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }

 private:
  TokenSink& next_;
};
class Fuse : public DecoderOf<Fuse, FuseSink> {};

class ReplaceSink;
class Replace : public DecoderOf<Replace, ReplaceSink> {
 public:
  Replace(std::unique_ptr<Pattern> wanted, std::string text)
      : pattern(std::move(wanted)), content(std::move(text)) {}
  const std::unique_ptr<Pattern> pattern;
  const std::string content;
};
class ReplaceSink : public WholeTokens {
 public:
  ReplaceSink(const Replace& decoder, TokenSink& next) : WholeTokens(next), decoder_(decoder) {}

 private:
  void token(const std::string& token) override {
    std::string out;
    each_part(*decoder_.pattern, token, [&](size_t begin, size_t end, bool is_match) {
      out += is_match ? std::string_view(decoder_.content)
                      : std::string_view(token).substr(begin, end - begin);
    });
    pass(out);
  }
  const Replace& decoder_;
};

/// The mark of a word is a space; of the first token's marks nothing is left.
class MetaspaceSink;
class Metaspace : public DecoderOf<Metaspace, MetaspaceSink> {
 public:
  Metaspace(std::string text, bool prepends) : mark(std::move(text)), drops_first(prepends) {}
  const std::string mark;
  const bool drops_first;
};
class MetaspaceSink : public WholeTokens {
 public:
  MetaspaceSink(const Metaspace& decoder, TokenSink& next) : WholeTokens(next), decoder_(decoder) {}
  void finish() override {
    first_ = true;
    next_.finish();
  }

 private:
  void token(const std::string& token) override {
    std::string out;
    for (size_t i = 0; i < token.size();) {
      if (std::string_view(token).substr(i).starts_with(decoder_.mark)) {
        if (!first_ || !decoder_.drops_first) out += ' ';
        i += decoder_.mark.size();
      } else {
        out += token[i++];
      }
    }
    first_ = false;
    pass(out);
  }
  const Metaspace& decoder_;
  bool first_ = true;
};

/// Takes up to `start` of a character from the begin of each token and up to `stop` from its end.
class StripSink;
class Strip : public DecoderOf<Strip, StripSink> {
 public:
  Strip(std::string text, size_t most_first, size_t most_last)
      : content(std::move(text)), start(most_first), stop(most_last) {}
  const std::string content;
  const size_t start, stop;
};
class StripSink : public TokenSink {
 public:
  StripSink(const Strip& decoder, TokenSink& next) : decoder_(decoder), next_(next) {}
  void text(std::string_view part) override {
    held_ += part;
    const std::string& content = decoder_.content;
    size_t begin = 0;
    while (at_begin_) {
      if (taken_ < decoder_.start && held_.compare(begin, content.size(), content) == 0) {
        begin += content.size();
        ++taken_;
      } else {
        at_begin_ = taken_ < decoder_.start && begin == held_.size();
        break;
      }
    }
    // What may have to be taken from the end waits.
    size_t end = held_.size();
    for (size_t i = 0; i < decoder_.stop && end >= begin + content.size() &&
                       held_.compare(end - content.size(), content.size(), content) == 0;
         ++i) {
      end -= content.size();
    }
    if (end > begin) next_.text(std::string_view(held_).substr(begin, end - begin));
    held_.erase(0, end);
  }
  void end_token() override {
    reset();
    next_.end_token();
  }
  void finish() override {
    reset();
    next_.finish();
  }

 private:
  void reset() {
    held_.clear();
    at_begin_ = true;
    taken_ = 0;
  }
  const Strip& decoder_;
  TokenSink& next_;
  std::string held_;
  bool at_begin_ = true;
  size_t taken_ = 0;
};

size_t read_count(const Field& field) {
  const int64_t count = field.integer();
  if (count < 0) throw field.refusal("is negative");
  return static_cast<size_t>(count);
}

std::unique_ptr<Decoder> read_step(const Field& field, const std::string& type) {
  if (type == "ByteLevel") {
    field.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<ByteLevel>();
  }
  if (type == "ByteFallback") {
    field.only({"type"});
    return std::make_unique<ByteFallback>();
  }
  if (type == "Fuse") {
    field.only({"type"});
    return std::make_unique<Fuse>();
  }
  if (type == "Replace") {
    field.only({"type", "pattern", "content"});
    return std::make_unique<Replace>(read_pattern(field.at("pattern")), field.at("content").text());
  }
  if (type == "Strip") {
    field.only({"type", "content", "start", "stop"});
    std::string content;
    append_utf8(content, field.at("content").character());
    return std::make_unique<Strip>(content, read_count(field.at("start")),
                                   read_count(field.at("stop")));
  }
  if (type == "Metaspace") {
    field.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    std::string mark;
    append_utf8(mark, field.at("replacement").character());
    const auto scheme = field.find("prepend_scheme");
    const std::string name = scheme ? scheme->text() : "always";
    if (name != "always" && name != "first" && name != "never") {
      throw scheme->refusal(fmt::format("is {}, which is not known", shown(name)));
    }
    return std::make_unique<Metaspace>(mark,
                                       name != "never" && field.flag_or("add_prefix_space", true));
  }
  throw field.refusal(fmt::format("is a decoder of the type {}, which is not known", shown(type)));
}

}  // namespace

std::vector<std::unique_ptr<Decoder>> read_decoder(const Field& field) {
  std::vector<std::unique_ptr<Decoder>> steps;
  const std::string type = field.type();
  if (type != "Sequence") {
    steps.push_back(read_step(field, type));
    return steps;
  }
  field.only({"type", "decoders"});
  for (const Field& step : field.at("decoders").items()) {
    for (auto& inner : read_decoder(step)) steps.push_back(std::move(inner));
  }
  return steps;
}

}  // namespace athanor::data::hf
