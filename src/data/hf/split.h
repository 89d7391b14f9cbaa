// The Split pre-tokenizer's behaviours: what becomes of a text's matches and of what lies between.
#pragma once

#include <memory>

#include "data/hf/json_fields.h"
#include "data/hf/pattern.h"
#include "data/hf/pre_tokenizer.h"

namespace athanor::data::hf {

enum class SplitBehavior : uint8_t {
  kRemoved,             ///< matches are dropped
  kIsolated,            ///< each match is a word
  kMergedWithPrevious,  ///< a match joins what is in front of it
  kMergedWithNext,      ///< … what is behind it
  kContiguous,          ///< matches in a row are one word
};

SplitBehavior read_behavior(const Field& field);

/// Cuts at what `cut` finds: it calls its sink with (begin, end, is_match) for consecutive parts of the text.
using PartSink = FunctionRef<void(size_t begin, size_t end, bool is_match)>;
void split_parts(const Piece& piece, SplitBehavior behavior, FunctionRef<void(PartSink)> parts,
                 PieceSink sink);

/// Cuts at single characters: matches are those for which `is_match` holds.
std::unique_ptr<PreTokenizer> split_at_characters(bool (*is_match)(char32_t),
                                                  SplitBehavior behavior);
/// Cuts at one character.
std::unique_ptr<PreTokenizer> split_at_character(char32_t character, SplitBehavior behavior);
/// Cuts at matches of a pattern; with `invert` at what lies between.
std::unique_ptr<PreTokenizer> split_at_pattern(std::unique_ptr<Pattern> pattern,
                                               SplitBehavior behavior, bool invert);

}  // namespace athanor::data::hf
