// UTF-8: what is valid, and repair of what is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace athanor::data {

/// Bytes of the longest prefix of `text` that is whole, valid UTF-8 characters (Unicode 16 §3.9,
/// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF). Equal to text.size() when
/// all of it is valid.
size_t valid_utf8_prefix(std::string_view text);

/// Passes bytes on as whole characters and replaces what makes none by U+FFFD.
class Utf8Repair {
 public:
  enum class Policy {
    kEachByte,     ///< one U+FFFD for each bad byte: SentencePiece's byte pieces
    kMaximalPart,  ///< one for each maximal bad part (Unicode §3.9): Hugging Face's ByteLevel
                   ///< decoder
  };
  explicit Utf8Repair(Policy policy) : policy_(policy) {}
  /// Appends to `out` what is certain after `byte`.
  void push(unsigned char byte, std::string& out);
  /// Appends what replaces an unfinished character.
  void finish(std::string& out);

 private:
  Policy policy_;
  std::string pending_;  // the begin of a character, valid so far
};

}  // namespace athanor::data
