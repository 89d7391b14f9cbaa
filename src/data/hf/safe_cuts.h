// Where a text may be cut without changing its ids, so that several threads can encode its parts.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "data/hf/added_tokens.h"
#include "data/hf/bpe.h"
#include "data/hf/normalizer.h"
#include "data/hf/pre_tokenizer.h"

namespace athanor::data::hf {

/// Cuts lie between an ASCII letter and a space behind it: there no normal form composes, no known pattern has a word across,
/// and no merge joins (which is asked of the model where it is given whole lines as words). Where a part of the tokenizer
/// may see across such a place, there are none.
class SafeCuts {
 public:
  SafeCuts() = default;
  /// `normalizer` and `pre_tokenizer` may be null.
  SafeCuts(const Normalizer* normalizer, const PreTokenizer* pre_tokenizer, const Bpe& model,
           const AddedTokenMatcher& raw, const AddedTokenMatcher& normalized);
  /// The first place in each `part_bytes` of the text that has one.
  std::vector<size_t> find(std::string_view text, size_t part_bytes) const;

 private:
  std::array<bool, 256> letters_{};  // behind which a cut is safe
};

}  // namespace athanor::data::hf
