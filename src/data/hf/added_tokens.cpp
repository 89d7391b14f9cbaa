#include "data/hf/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

bool ends_in_word(std::string_view text) {
  return !text.empty() && is_word(last_character(text).code);
}
bool begins_with_word(std::string_view text) {
  return !text.empty() && is_word(first_character(text).code);
}

/// Bytes of `text` without the white space at its end.
size_t without_last_spaces(std::string_view text) {
  while (!text.empty() && is_space(last_character(text).code)) {
    text.remove_suffix(last_character(text).bytes);
  }
  return text.size();
}
/// Bytes of the white space at the begin of `text`.
size_t first_spaces(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Character c = first_character(text.data() + bytes);
    if (!is_space(c.code)) break;
    bytes += c.bytes;
  }
  return bytes;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::fill(std::begin(roots_), std::end(roots_), -1);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    require(!tokens_[i].spelling.empty(), "an added token without a spelling");
    int32_t node = -1;
    for (const char c : tokens_[i].spelling) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t next = node < 0 ? roots_[byte] : child_of(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(nodes_.size());
        Node fresh;
        fresh.byte = byte;
        if (node >= 0)
          fresh.sibling = std::exchange(nodes_[node].child, next);
        else
          roots_[byte] = next;
        nodes_.push_back(fresh);
      }
      node = next;
    }
    // Of tokens that are spelled alike (after normalization) the first is found.
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<int32_t>(i);
  }
}

int32_t AddedTokenMatcher::child_of(int32_t node, unsigned char byte) const {
  int32_t child = nodes_[node].child;
  while (child >= 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

int32_t AddedTokenMatcher::longest(std::string_view text, size_t at, size_t& end) const {
  int32_t found = -1;
  int32_t node = roots_[static_cast<unsigned char>(text[at])];
  for (size_t i = at + 1; node >= 0; ++i) {
    if (nodes_[node].token >= 0) {
      found = nodes_[node].token;
      end = i;
    }
    if (i == text.size()) break;
    node = child_of(node, static_cast<unsigned char>(text[i]));
  }
  return found;
}

void AddedTokenMatcher::each_part(
    std::string_view text, FunctionRef<void(size_t begin, size_t end, int32_t id)> part) const {
  size_t done = 0;
  size_t at = empty() ? text.size() : 0;
  while (at < text.size()) {
    if (roots_[static_cast<unsigned char>(text[at])] < 0) {
      ++at;
      continue;
    }
    size_t end = 0;
    const int32_t found = longest(text, at, end);
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found];
    size_t begin = at;
    at = end;  // the search goes on behind the match, whatever becomes of it
    if (token.single_word &&
        (ends_in_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) {
      // Not white space that the token before has taken already.
      const size_t from = std::min(done, begin);
      begin = std::max(done, from + without_last_spaces(text.substr(from, begin - from)));
    }
    if (token.rstrip) {
      end = std::max(end, done);  // what was taken behind the token before is white space, too
      end += first_spaces(text.substr(end));
    }
    if (begin >= end) continue;  // of white space between two such tokens nothing is left
    if (done < begin) part(done, begin, -1);
    part(begin, end, token.id);
    done = end;
  }
  if (done < text.size()) part(done, text.size(), -1);
}

}  // namespace athanor::data::hf
