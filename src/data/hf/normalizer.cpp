#include "data/hf/normalizer.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "data/hf/pattern.h"
#include "data/hf/unicode.h"
#include "data/hf/unicode_form.h"

namespace athanor::data::hf {
namespace {

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : normalizer_(form) {}
  void apply(Piece& piece, std::string& out) const override {
    if (normalizer_.apply(piece.text, out)) piece.text = out;
  }
  bool splits_at_spaces() const override { return true; }  // a space composes with nothing in front

 private:
  UnicodeNormalizer normalizer_;
};

class Lowercase : public Normalizer {
 public:
  void apply(Piece& piece, std::string& out) const override {
    out.clear();
    for (std::string_view rest = piece.text; !rest.empty();) {
      const Character c = first_character(rest);
      append_lowercase(out, c.code);
      rest.remove_prefix(c.bytes);
    }
    piece.text = out;
  }
  bool splits_at_spaces() const override { return true; }
};

class StripAccents : public Normalizer {
 public:
  void apply(Piece& piece, std::string& out) const override {
    out.clear();
    for (size_t i = 0; i < piece.text.size();) {
      const Character c = first_character(piece.text.data() + i);
      if (!is_accent(c.code)) {
        out += piece.text.substr(i, c.bytes);
      } else if (out.empty()) {
        piece.first = false;
      }
      i += c.bytes;
    }
    piece.text = out;
  }
  bool splits_at_spaces() const override { return true; }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(Piece& piece, std::string&) const override {
    while (left_ && !piece.text.empty() && is_space(first_character(piece.text).code)) {
      piece.text.remove_prefix(first_character(piece.text).bytes);
      piece.first = false;
    }
    while (right_ && !piece.text.empty() && is_space(last_character(piece.text).code)) {
      piece.text.remove_suffix(last_character(piece.text).bytes);
    }
  }
  bool splits_at_spaces() const override { return false; }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(Piece& piece, std::string& out) const override {
    if (piece.text.empty()) return;
    out = text_;
    out += piece.text;
    piece.text = out;
  }
  bool splits_at_spaces() const override { return false; }

 private:
  std::string text_;
};

class Replace : public Normalizer {
 public:
  /// `literal` is empty for a regular expression.
  Replace(std::unique_ptr<Pattern> pattern, std::string literal, std::string content)
      : pattern_(std::move(pattern)), literal_(std::move(literal)), content_(std::move(content)) {}
  void apply(Piece& piece, std::string& out) const override {
    out.clear();
    size_t done = 0;
    bool any = false;
    pattern_->each_match(piece.text, [&](size_t begin, size_t end) {
      out += piece.text.substr(done, begin - done);
      out += content_;
      if (begin == 0 && end > 0 && content_.empty()) piece.first = false;
      done = end;
      any = true;
    });
    if (!any) return;
    out += piece.text.substr(done);
    piece.text = out;
  }
  bool splits_at_spaces() const override { return is_one_character(); }
  bool removes(std::string_view literal) const override {
    return literal == literal_ && is_one_character() &&
           content_.find(literal_) == std::string::npos;
  }

 private:
  bool is_one_character() const {
    return !literal_.empty() && first_character(literal_).bytes == literal_.size();
  }
  std::unique_ptr<Pattern> pattern_;
  std::string literal_;
  std::string content_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(Piece& piece, std::string& out) const override {
    std::string next;
    for (const auto& step : steps_) {
      step->apply(piece, next);
      // The piece now lies in `next`, or where it lay before.
      if (piece.text.empty()) piece.text = {};
      if (!next.empty() && piece.text.data() >= next.data() &&
          piece.text.data() < next.data() + next.size()) {
        const auto offset = static_cast<size_t>(piece.text.data() - next.data());
        out.swap(next);
        piece.text = std::string_view(out).substr(offset, piece.text.size());
      }
    }
  }
  bool splits_at_spaces() const override {
    for (const auto& step : steps_) {
      if (!step->splits_at_spaces()) return false;
    }
    return true;
  }
  bool removes(std::string_view literal) const override {
    return !steps_.empty() && steps_.back()->removes(literal);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace

bool Normalizer::removes(std::string_view) const { return false; }

std::unique_ptr<Normalizer> read_normalizer(const Field& field) {
  const std::string type = field.type();
  for (const auto& [name, form] : {std::pair{"NFC", UnicodeForm::kNfc},
                                   {"NFD", UnicodeForm::kNfd},
                                   {"NFKC", UnicodeForm::kNfkc},
                                   {"NFKD", UnicodeForm::kNfkd}}) {
    if (type != name) continue;
    field.only({"type"});
    return std::make_unique<FormNormalizer>(form);
  }
  if (type == "Lowercase") {
    field.only({"type"});
    return std::make_unique<Lowercase>();
  }
  if (type == "StripAccents") {
    field.only({"type"});
    return std::make_unique<StripAccents>();
  }
  if (type == "Strip") {
    field.only({"type", "strip_left", "strip_right"});
    return std::make_unique<Strip>(field.at("strip_left").flag(), field.at("strip_right").flag());
  }
  if (type == "Prepend") {
    field.only({"type", "prepend"});
    return std::make_unique<Prepend>(field.at("prepend").text());
  }
  if (type == "Replace") {
    field.only({"type", "pattern", "content"});
    const auto literal = field.at("pattern").find("String");
    return std::make_unique<Replace>(read_pattern(field.at("pattern")),
                                     literal ? literal->text() : "", field.at("content").text());
  }
  if (type == "Sequence") {
    field.only({"type", "normalizers"});
    std::vector<std::unique_ptr<Normalizer>> steps;
    for (const Field& step : field.at("normalizers").items())
      steps.push_back(read_normalizer(step));
    return std::make_unique<NormalizerSequence>(std::move(steps));
  }
  throw field.refusal(
      fmt::format("is a normalizer of the type {}, which is not known", shown(type)));
}

}  // namespace athanor::data::hf
