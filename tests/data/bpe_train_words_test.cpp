// Counting the words of a text: the same for any number of threads, and within a limit.
#include "data/bpe_train_words.h"

#include <map>

#include "testing.h"

namespace athanor::data {
namespace {

using Counted = std::map<std::string, uint64_t>;

Counted counted(const std::vector<std::string>& texts, const WordCounting& options = {},
                int threads = 2) {
  Counted all;
  const auto documents = read_texts(texts);
  const WordCounts counts = count_words(*documents, options, Threads(threads));
  for (const WordTable& table : counts.tables) {
    table.each([&](std::string_view word, uint64_t hash, uint64_t count) {
      EXPECT_EQ(hash, word_hash(word));
      EXPECT_TRUE(all.emplace(word, count).second) << "twice: " << word;
    });
  }
  return all;
}

TEST(CountWords, CutsByThePatternAndCounts) {
  EXPECT_EQ(counted({"the cat and the dog,\nthe", "", "the 1234"}), (Counted{{"the", 3},
                                                                             {" cat", 1},
                                                                             {" and", 1},
                                                                             {" the", 1},
                                                                             {" dog", 1},
                                                                             {",\n", 1},
                                                                             {" ", 1},
                                                                             {"123", 1},
                                                                             {"4", 1}}));
}

TEST(CountWords, CutsSpecialTokensOut) {
  const hf::AddedTokenMatcher special({{.id = 0, .content = "<|x|>", .spelling = "<|x|>"}});
  EXPECT_EQ(counted({"a<|x|>b <|x|>"}, {.special = &special}),
            (Counted{{"a", 1}, {"b", 1}, {" ", 1}}));
}

TEST(CountWords, LongWordsAreCutBetweenCharacters) {
  EXPECT_EQ(counted({std::string(600, 'a')}),
            (Counted{{std::string(256, 'a'), 2}, {std::string(88, 'a'), 1}}));
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xE6\x97\xA5";
  EXPECT_EQ(counted({text}), (Counted{{text.substr(0, 255), 1}, {text.substr(255), 1}}));
}

TEST(CountWords, ThePartsOfALongTextHaveTheWordsOfTheWhole) {
  // Lines of all sorts: the places at which parts begin must not cut a word.
  const std::vector<std::string> ends = {"\n", ".\n\n", ",\r\n", " \n \n", "\n\t\n", "!\n\xC2\xA0"};
  std::string text;
  RandomStream random(9, 9);
  while (text.size() < 3'000'000) {
    for (uint64_t n = random.below(9); n > 0; --n) text += n % 2 == 0 ? " word" : "  12 \xC3\xA9t";
    text += ends[random.below(ends.size())];
  }
  Counted whole;
  hf::each_word(hf::KnownPattern::kCl100kThreeDigits, text,
                [&](size_t begin, size_t end) { ++whole[text.substr(begin, end - begin)]; });
  for (const int threads : {1, 3}) EXPECT_EQ(counted({text}, {}, threads), whole);
}

TEST(CountWords, TheRarestAreForgottenWhenThereAreTooMany) {
  // Half a million words that occur once, in texts longer than what is read at a time, and some that occur everywhere.
  std::vector<std::string> texts;
  for (int d = 0; d < 40; ++d) {
    std::string text;
    for (int i = 0; i < 15'000; ++i) {
      text += " often";
      std::string word;
      for (int number = d * 15'000 + i; number > 0; number /= 26) {
        word += static_cast<char>('a' + number % 26);
      }
      text += " " + word + std::string(60, 'x');
    }
    texts.push_back(std::move(text));
  }
  const WordCounting options{.most_cost = 8'000'000};
  ::testing::internal::CaptureStderr();
  const Counted one = counted(texts, options, 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warning: the text has more words than 7 MB hold"), std::string::npos)
      << said;
  EXPECT_NE(said.find("at most 1 times"), std::string::npos) << said;
  uint64_t cost = 0;
  for (const auto& [word, count] : one) cost += word.size() + 32;
  EXPECT_LE(cost, options.most_cost);
  EXPECT_GE(cost, options.most_cost / 4);
  EXPECT_EQ(one.at(" often"), 600'000u);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(counted(texts, options, 3), one);
  ::testing::internal::GetCapturedStderr();
}

TEST(CountWords, NoTextIsRefused) {
  expect_error(ExitCode::kData, {"no text"}, [] { counted({"", ""}); });
  expect_error(ExitCode::kData, {"no text"}, [] { counted({}); });
}

}  // namespace
}  // namespace athanor::data
