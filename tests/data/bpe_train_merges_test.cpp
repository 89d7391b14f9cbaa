// Learning merges: by hand, and against counting all pairs anew before every merge.
#include "data/bpe_train_merges.h"

#include <algorithm>
#include <map>

#include "testing.h"

namespace athanor::data {
namespace {

using Merges = std::vector<std::pair<int32_t, int32_t>>;
using Row = std::pair<std::vector<int32_t>, uint64_t>;  // ids, count

CountedWords words_of(const std::vector<Row>& rows) {
  CountedWords words;
  for (const auto& [ids, count] : rows) {
    words.words.push_back({count, words.ids.size(), static_cast<uint32_t>(ids.size())});
    words.ids.insert(words.ids.end(), ids.begin(), ids.end());
  }
  return words;
}

/// The plain algorithm: all pairs are counted anew for each merge.
Merges learn_plainly(std::vector<Row> rows, const MergeLearning& options,
                     std::vector<std::string>& tokens) {
  Merges merges;
  while (tokens.size() < options.vocab_size) {
    std::map<std::pair<int32_t, int32_t>, uint64_t> counts;
    for (const auto& [ids, count] : rows) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    }
    const auto text_of = [&](const std::pair<int32_t, int32_t>& pair) {
      return tokens[static_cast<size_t>(pair.first)] + tokens[static_cast<size_t>(pair.second)];
    };
    std::pair<int32_t, int32_t> best = {-1, -1};
    uint64_t most = 1;
    for (const auto& [pair, count] : counts) {
      if (count > most && !options.reserved.contains(text_of(pair))) {
        best = pair;
        most = count;
      }
    }
    if (most < 2) break;
    const std::string text = text_of(best);
    const auto found = std::find(tokens.begin(), tokens.end(), text);
    const auto id = static_cast<int32_t>(found - tokens.begin());
    if (found == tokens.end()) tokens.push_back(text);
    if (std::find(merges.begin(), merges.end(), best) == merges.end()) merges.push_back(best);
    for (auto& [ids, count] : rows) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool here = ids[i] == best.first && i + 1 < ids.size() && ids[i + 1] == best.second;
        merged.push_back(here ? id : ids[i]);
        i += here ? 1 : 0;
      }
      ids = std::move(merged);
    }
  }
  return merges;
}

TEST(LearnMerges, TakesTheMostFrequentPairAndOfEqualsTheSmallestIds) {
  // abab and cdcd twice, aaa once: ab and cd occur four times each, aa, ba and dc twice.
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  const Merges merges =
      learn_merges(words_of({{{2, 3, 2, 3}, 2}, {{0, 1, 0, 1}, 2}, {{0, 0, 0}, 1}}),
                   {.vocab_size = 100}, tokens);
  EXPECT_EQ(merges, (Merges{{0, 1}, {2, 3}, {0, 0}, {4, 4}, {5, 5}}));
  EXPECT_EQ(tokens,
            (std::vector<std::string>{"a", "b", "c", "d", "ab", "cd", "aa", "abab", "cdcd"}));
}

TEST(LearnMerges, StopsAtTheSizeAndWhereNothingOccursTwice) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  EXPECT_EQ(learn_merges(words_of({{{0, 1, 2}, 5}}), {.vocab_size = 4}, tokens).size(), 1u);
  EXPECT_EQ(tokens.back(), "ab");
  tokens = {"a", "b", "c"};
  EXPECT_TRUE(learn_merges(words_of({{{0, 1, 2}, 1}}), {.vocab_size = 9}, tokens).empty());
  EXPECT_TRUE(learn_merges({}, {.vocab_size = 9}, tokens).empty());
  EXPECT_TRUE(learn_merges(words_of({{{0, 1, 2}, 5}}), {.vocab_size = 3}, tokens).empty());
}

TEST(LearnMerges, NothingIsSpelledLikeAReservedToken) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  const Merges merges = learn_merges(words_of({{{0, 1, 2}, 5}, {{0, 1}, 7}}),
                                     {.vocab_size = 9, .reserved = {"ab"}}, tokens);
  EXPECT_EQ(merges, (Merges{{1, 2}, {0, 3}}));
}

TEST(LearnMerges, AgreesWithCountingAllPairsAnew) {
  RandomStream random(4, 4);
  for (int round = 0; round < 150; ++round) {
    const uint64_t letters = 1 + random.below(4);
    std::vector<Row> rows;
    for (uint64_t n = 1 + random.below(30); n > 0; --n) {
      Row row{{}, 1 + random.below(5)};
      for (uint64_t length = random.below(14); length > 0; --length) {
        row.first.push_back(static_cast<int32_t>(random.below(letters)));
      }
      rows.push_back(std::move(row));
    }
    MergeLearning options{.vocab_size = 4 + random.below(40)};
    if (round % 3 == 0) options.reserved = {"aa", "ab", "abb"};
    // Two tokens that are spelled alike from the start: a merge may come to "ab" that is there already.
    std::vector<std::string> ours = {"a", "b", "c", "d"};
    if (round % 2 == 0) ours.insert(ours.end(), {"ba", "aab"});
    std::vector<std::string> plain = ours;
    ASSERT_EQ(learn_merges(words_of(rows), options, ours), learn_plainly(rows, options, plain));
    ASSERT_EQ(ours, plain);
  }
}

}  // namespace
}  // namespace athanor::data
