// The second half of learning a BPE: which pairs of tokens to join, the most frequent first.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace athanor::data {

/// Distinct words as rows of token ids, one behind the other in `ids`.
struct CountedWords {
  struct Word {
    uint64_t count = 0;   ///< how often it occurs
    uint64_t begin = 0;   ///< in `ids`
    uint32_t length = 0;  ///< ids
  };
  std::vector<int32_t> ids;
  std::vector<Word> words;
};

struct MergeLearning {
  size_t vocab_size = 0;                     ///< stops when `tokens` has as many
  std::unordered_set<std::string> reserved;  ///< spellings that no merge may have
};

/// Joins, again and again, the neighbouring tokens that occur together most often; of equals the pair with the smallest
/// left id, then the smallest right one. `tokens` has the spelling of each id and is added to; a merge whose spelling is a
/// token already becomes that one. Ends early when no pair occurs twice. Returns the merges in order, as pairs of ids.
/// Byte pair encoding: Sennrich et al., arXiv 1508.07909, with pairs kept in a heap and counted anew only in the words that
/// a merge changes. `words` is used up.
std::vector<std::pair<int32_t, int32_t>> learn_merges(CountedWords words,
                                                      const MergeLearning& options,
                                                      std::vector<std::string>& tokens);

}  // namespace athanor::data
