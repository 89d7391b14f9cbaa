#include "data/hf/split.h"

#include <fmt/format.h>

#include <utility>

#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

/// Joins parts to words by the rules of a behaviour, one part at a time.
class Joiner {
 public:
  Joiner(const Piece& piece, SplitBehavior behavior, PieceSink sink)
      : piece_(piece), behavior_(behavior), sink_(sink) {}

  void part(size_t begin, size_t end, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!is_match) emit(begin, end);
        return;
      case SplitBehavior::kIsolated:
        emit(begin, end);
        return;
      case SplitBehavior::kContiguous:
        if (is_match != previous_match_) flush();
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (!is_match || previous_match_) flush();
        break;
      case SplitBehavior::kMergedWithNext:
        // Of matches in a row only the last joins what follows.
        if (!previous_match_ || is_match) flush();
        break;
    }
    if (!open_) begin_ = begin;
    open_ = true;
    end_ = end;
    previous_match_ = is_match;
  }
  void flush() {
    if (open_) emit(begin_, end_);
    open_ = false;
  }

 private:
  void emit(size_t begin, size_t end) {
    if (begin < end) sink_({piece_.text.substr(begin, end - begin), piece_.first && begin == 0});
  }

  const Piece& piece_;
  SplitBehavior behavior_;
  PieceSink sink_;
  bool previous_match_ = false;
  bool open_ = false;
  size_t begin_ = 0;
  size_t end_ = 0;
};

template <class IsMatch>
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(IsMatch is_match, SplitBehavior behavior)
      : is_match_(is_match), behavior_(behavior) {}
  void split(const Piece& piece, PieceSink sink) const override {
    split_parts(
        piece, behavior_,
        [&](PartSink part) {
          size_t done = 0;
          for (size_t i = 0; i < piece.text.size();) {
            const Character c = first_character(piece.text.data() + i);
            if (is_match_(c.code)) {
              if (done < i) part(done, i, false);
              part(i, i + c.bytes, true);
              done = i + c.bytes;
            }
            i += c.bytes;
          }
          if (done < piece.text.size()) part(done, piece.text.size(), false);
        },
        sink);
  }
  bool splits_at_spaces() const override { return false; }

 private:
  IsMatch is_match_;
  SplitBehavior behavior_;
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const Piece& piece, PieceSink sink) const override {
    split_parts(
        piece, behavior_,
        [&](PartSink part) {
          each_part(*pattern_, piece.text, [&](size_t begin, size_t end, bool is_match) {
            part(begin, end, is_match != invert_);
          });
        },
        sink);
  }
  bool splits_at_spaces() const override { return false; }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace

SplitBehavior read_behavior(const Field& field) {
  const std::string name = field.text();
  // Files of both spellings occur; the library writes the first.
  for (const auto& [known, behavior] : {std::pair{"Removed", SplitBehavior::kRemoved},
                                        {"Isolated", SplitBehavior::kIsolated},
                                        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                        {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                        {"Contiguous", SplitBehavior::kContiguous}}) {
    if (name == known) return behavior;
  }
  throw field.refusal(fmt::format("is {}, a behavior that is not known", shown(name)));
}

void split_parts(const Piece& piece, SplitBehavior behavior, FunctionRef<void(PartSink)> parts,
                 PieceSink sink) {
  Joiner joiner(piece, behavior, sink);
  parts([&](size_t begin, size_t end, bool is_match) { joiner.part(begin, end, is_match); });
  joiner.flush();
}

std::unique_ptr<PreTokenizer> split_at_characters(bool (*is_match)(char32_t),
                                                  SplitBehavior behavior) {
  return std::make_unique<CharacterSplit<bool (*)(char32_t)>>(is_match, behavior);
}

std::unique_ptr<PreTokenizer> split_at_character(char32_t character, SplitBehavior behavior) {
  const auto is = [character](char32_t c) { return c == character; };
  return std::make_unique<CharacterSplit<decltype(is)>>(is, behavior);
}

std::unique_ptr<PreTokenizer> split_at_pattern(std::unique_ptr<Pattern> pattern,
                                               SplitBehavior behavior, bool invert) {
  return std::make_unique<PatternSplit>(std::move(pattern), behavior, invert);
}

}  // namespace athanor::data::hf
