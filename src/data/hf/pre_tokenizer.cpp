#include "data/hf/pre_tokenizer.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "data/hf/byte_level.h"
#include "data/hf/known_patterns.h"
#include "data/hf/pattern.h"
#include "data/hf/split.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

class WordSplit : public PreTokenizer {
 public:
  explicit WordSplit(KnownPattern pattern) : pattern_(pattern) {}
  void split(const Piece& piece, PieceSink sink) const override {
    each_word(pattern_, piece.text, [&](size_t begin, size_t end) {
      sink({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    });
  }
  // Of none of the known patterns any match goes on from a letter to a space.
  bool splits_at_spaces() const override { return true; }

 private:
  KnownPattern pattern_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink sink) const override {
    if (piece.text.starts_with(' ')) return sink(piece);
    std::string text = " ";
    text += piece.text;
    sink({text, piece.first});
  }
  bool splits_at_spaces() const override { return false; }
};

/// Bytes to the characters that spell them, for steps that are to see these.
class Spell : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink sink) const override {
    const std::string text = spell_bytes(piece.text);
    sink({text, piece.first});
  }
  bool splits_at_spaces() const override { return false; }
};

/// And back, for the model.
class Unspell : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink sink) const override {
    std::string bytes;
    require(append_spelled_bytes(piece.text, bytes), "a step made characters that spell no bytes");
    sink({bytes, piece.first});
  }
  bool splits_at_spaces() const override { return false; }
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}

  void split(const Piece& piece, PieceSink sink) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + mark_.size());
    const bool marked = piece.text.starts_with(' ') || piece.text.starts_with(mark_);
    if (!marked && (prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.first))) {
      text = mark_;
    }
    for (const char c : piece.text) {
      if (c == ' ') {
        text += mark_;
      } else {
        text += c;
      }
    }
    if (!split_) return sink({text, piece.first});
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(mark_, begin + 1), text.size());
      sink({std::string_view(text).substr(begin, end - begin), piece.first && begin == 0});
      begin = end;
    }
  }
  bool splits_at_spaces() const override { return false; }

 private:
  std::string mark_;
  Prepend prepend_;
  bool split_;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(Steps steps) : steps_(std::move(steps)) {}
  void split(const Piece& piece, PieceSink sink) const override { step(0, piece, sink); }
  bool splits_at_spaces() const override {
    for (const auto& step : steps_) {
      if (!step->splits_at_spaces()) return false;
    }
    return true;
  }

 private:
  void step(size_t number, const Piece& piece, PieceSink sink) const {
    if (number == steps_.size()) return sink(piece);
    steps_[number]->split(piece, [&](const Piece& part) { step(number + 1, part, sink); });
  }
  Steps steps_;
};

std::unique_ptr<PreTokenizer> read_split(const Field& field) {
  field.only({"type", "pattern", "behavior", "invert"});
  const SplitBehavior behavior = read_behavior(field.at("behavior"));
  const bool invert = field.flag_or("invert", false);
  if (const auto known = known_pattern(regex_of(field.at("pattern")))) {
    // The words are the matches: without a gap all of these come to the same.
    if (behavior == SplitBehavior::kIsolated || (behavior == SplitBehavior::kRemoved && invert)) {
      return std::make_unique<WordSplit>(*known);
    }
  }
  return split_at_pattern(read_pattern(field.at("pattern")), behavior, invert);
}

std::unique_ptr<PreTokenizer> read_metaspace(const Field& field) {
  field.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  std::string mark;
  append_utf8(mark, field.at("replacement").character());
  const auto scheme = field.find("prepend_scheme");
  const std::string name = scheme ? scheme->text() : "always";
  auto prepend = Metaspace::Prepend::kAlways;
  if (name == "first") {
    prepend = Metaspace::Prepend::kFirst;
  } else if (name == "never") {
    prepend = Metaspace::Prepend::kNever;
  } else if (name != "always") {
    throw scheme->refusal(fmt::format("is {}, which is not known", shown(name)));
  }
  if (!field.flag_or("add_prefix_space", true)) prepend = Metaspace::Prepend::kNever;
  return std::make_unique<Metaspace>(mark, prepend, field.flag_or("split", true));
}

class Reader {
 public:
  void read(const Field& field) {
    const std::string type = field.type();
    if (type == "Sequence") {
      field.only({"type", "pretokenizers"});
      for (const Field& step : field.at("pretokenizers").items()) read(step);
      return;
    }
    if (type == "ByteLevel") return byte_level(field);
    if (type == "Metaspace" && byte_level_) {
      throw field.refusal("is a Metaspace behind ByteLevel, which would mark spellings of bytes");
    }
    if (type == "Metaspace" && !steps_.empty()) {
      const auto scheme = field.find("prepend_scheme");
      asks_for_first_ |= scheme && scheme->text() == "first";
    }
    add(component(field, type));
  }

  ReadPreTokenizer finish() {
    if (spelled_) steps_.push_back(std::make_unique<Unspell>());
    ReadPreTokenizer read;
    read.byte_level = byte_level_;
    read.asks_for_first = asks_for_first_;
    if (steps_.size() == 1) {
      read.pre_tokenizer = std::move(steps_[0]);
    } else if (!steps_.empty()) {
      read.pre_tokenizer = std::make_unique<PreTokenizerSequence>(std::move(steps_));
    }
    return read;
  }

 private:
  void add(std::unique_ptr<PreTokenizer> step) {
    if (byte_level_ && !spelled_) {
      spelled_ = true;
      steps_.push_back(std::make_unique<Spell>());
    }
    steps_.push_back(std::move(step));
  }

  void byte_level(const Field& field) {
    field.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (byte_level_) throw field.refusal("is a second ByteLevel, which would spell spellings");
    if (field.at("add_prefix_space").flag()) steps_.push_back(std::make_unique<PrefixSpace>());
    if (field.flag_or("use_regex", true)) {
      steps_.push_back(std::make_unique<WordSplit>(KnownPattern::kGpt2));
    }
    byte_level_ = true;
  }

  static std::unique_ptr<PreTokenizer> component(const Field& field, const std::string& type) {
    if (type == "Split") return read_split(field);
    if (type == "Metaspace") return read_metaspace(field);
    if (type == "Digits") {
      field.only({"type", "individual_digits"});
      return split_at_characters(is_numeric, field.flag_or("individual_digits", false)
                                                 ? SplitBehavior::kIsolated
                                                 : SplitBehavior::kContiguous);
    }
    if (type == "Punctuation") {
      field.only({"type", "behavior"});
      const auto behavior = field.find("behavior");
      return split_at_characters(is_punctuation,
                                 behavior ? read_behavior(*behavior) : SplitBehavior::kIsolated);
    }
    if (type == "WhitespaceSplit") {
      field.only({"type"});
      return split_at_characters(is_space, SplitBehavior::kRemoved);
    }
    if (type == "CharDelimiterSplit") {
      field.only({"type", "delimiter"});
      return split_at_character(field.at("delimiter").character(), SplitBehavior::kRemoved);
    }
    throw field.refusal(
        fmt::format("is a pre-tokenizer of the type {}, which is not known", shown(type)));
  }

  Steps steps_;
  bool byte_level_ = false;
  bool spelled_ = false;
  bool asks_for_first_ = false;
};

}  // namespace

ReadPreTokenizer read_pre_tokenizer(const Field& field) {
  Reader reader;
  reader.read(field);
  return reader.finish();
}

}  // namespace athanor::data::hf
