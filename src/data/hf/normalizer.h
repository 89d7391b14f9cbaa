// Normalizers of tokenizer.json: what is done to text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/hf/json_fields.h"

namespace athanor::data::hf {

/// The text of a part between two added tokens.
struct Piece {
  std::string_view text;
  bool first = false;  ///< its first character comes from the very begin of the whole text
};

/// Immutable; may be used from many threads at once.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Writes what becomes of `piece` to `out` and sets piece.text to it; or leaves both alone where nothing changes.
  /// `out` must not hold the piece itself.
  virtual void apply(Piece& piece, std::string& out) const = 0;
  /// True when a text may be cut between a letter and a space behind it, and its parts normalized one by one.
  virtual bool splits_at_spaces() const = 0;
  /// True when `literal` is in no normalized text.
  virtual bool removes(std::string_view literal) const;
};

/// The `normalizer` of a file. Types that are not known are refused by name.
std::unique_ptr<Normalizer> read_normalizer(const Field& field);

}  // namespace athanor::data::hf
