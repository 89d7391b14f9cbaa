// Added tokens: texts that are cut out and given their id before the model sees the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"

namespace athanor::data::hf {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the white space in front of it
  bool rstrip = false;       ///< … behind it
  bool normalized = true;    ///< matched in the normalized text, by its normalized content
  bool special = false;      ///< left out when decoding without special tokens
  std::string spelling;      ///< what is looked for, and what it is decoded to
};

/// Finds the added tokens of one kind (normalized or not): leftmost, and of those that begin there the longest.
class AddedTokenMatcher {
 public:
  /// No spelling may be empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// Calls part(begin, end, id) for the parts of `text` in order; id is −1 for what is no added token. Time is linear in
  /// the text times the longest spelling.
  void each_part(std::string_view text,
                 FunctionRef<void(size_t begin, size_t end, int32_t id)> part) const;

 private:
  struct Node {
    int32_t child = -1;    // the first one
    int32_t sibling = -1;  // the next child of the same parent
    int32_t token = -1;    // that ends here
    unsigned char byte = 0;
  };
  int32_t child_of(int32_t node, unsigned char byte) const;
  /// The token with the longest spelling that begins at `at`; −1 when none does.
  int32_t longest(std::string_view text, size_t at, size_t& end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  int32_t roots_[256];  // the node of each first byte
};

}  // namespace athanor::data::hf
