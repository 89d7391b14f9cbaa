#include "base/spelling.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace athanor {
namespace {

const std::vector<std::string>& keys() {
  static const std::vector<std::string> names = {"layers",    "hidden",  "query_heads",
                                                 "head_size", "experts", "seed"};
  return names;
}

TEST(Spelling, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest_word("layer", keys()), "layers");         // a letter missing
  EXPECT_EQ(nearest_word("hiddden", keys()), "hidden");       // one too many
  EXPECT_EQ(nearest_word("exqerts", keys()), "experts");      // another
  EXPECT_EQ(nearest_word("haed_size", keys()), "head_size");  // two swapped
  EXPECT_EQ(nearest_word("seed", keys()), "seed");
}

TEST(Spelling, SwappedNeighboursAreOneEdit) {
  const std::vector<std::string> two = {"xy", "ab"};
  EXPECT_EQ(nearest_word("ba", two),
            "ab");  // one edit of two letters; replacing both would be too many
}

TEST(Spelling, TheFirstAmongEquals) {
  const std::vector<std::string> equals = {"cat", "cut"};
  EXPECT_EQ(nearest_word("cot", equals), "cat");
}

TEST(Spelling, NothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_word("temperature", keys()), "");
  EXPECT_EQ(nearest_word("", keys()), "");
  EXPECT_EQ(nearest_word("layers", {}), "");
  EXPECT_EQ(nearest_word("sxxd", keys()), "seed");  // two of four is near enough, three are not
  EXPECT_EQ(nearest_word("sxxx", keys()), "");
}

TEST(Spelling, SuggestionsStandBehindAMessage) {
  EXPECT_EQ(suggestion("layrs", keys()), "; did you mean 'layers'?");
  EXPECT_EQ(suggestion("temperature", keys()), "");
}

}  // namespace
}  // namespace athanor
