#include "data/hf/safe_cuts.h"

#include <algorithm>
#include <string>

namespace athanor::data::hf {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// True when a token may reach across a cut, or looks at what is behind it.
bool reaches_across(const AddedToken& token) {
  const std::string& content = token.content;
  for (size_t i = 0; i + 1 < content.size(); ++i) {
    if (is_letter(content[i]) && content[i + 1] == ' ') return true;
  }
  if (token.normalized) {
    // There the space may be another character: only what is plain ASCII without one is safe.
    const auto odd = [](char c) { return c == ' ' || static_cast<unsigned char>(c) >= 0x80; };
    return token.single_word || token.rstrip || std::any_of(content.begin(), content.end(), odd);
  }
  return (token.rstrip && is_letter(content.back())) || (token.single_word && content[0] == ' ');
}

}  // namespace

SafeCuts::SafeCuts(const Normalizer* normalizer, const PreTokenizer* pre_tokenizer,
                   const Bpe& model, const AddedTokenMatcher& raw,
                   const AddedTokenMatcher& normalized) {
  if (normalizer != nullptr && !normalizer->splits_at_spaces()) return;
  if (pre_tokenizer != nullptr && !pre_tokenizer->splits_at_spaces()) return;
  for (const AddedTokenMatcher* matcher : {&raw, &normalized}) {
    for (const AddedToken& token : matcher->tokens()) {
      if (reaches_across(token)) return;
    }
  }
  for (int c = 0; c < 128; ++c) {
    if (!is_letter(static_cast<char>(c))) continue;
    std::string buffer;
    const std::string text = {static_cast<char>(c), ' ', 'x'};
    Piece piece{text, false};
    if (normalizer != nullptr) normalizer->apply(piece, buffer);
    letters_[c] = pre_tokenizer != nullptr || model.cuts_behind_first(piece.text);
  }
}

std::vector<size_t> SafeCuts::find(std::string_view text, size_t part_bytes) const {
  std::vector<size_t> cuts;
  for (size_t at = part_bytes; at < text.size(); ++at) {
    if (text[at] != ' ' || !letters_[static_cast<unsigned char>(text[at - 1])]) continue;
    cuts.push_back(at);
    at += part_bytes - 1;
  }
  return cuts;
}

}  // namespace athanor::data::hf
