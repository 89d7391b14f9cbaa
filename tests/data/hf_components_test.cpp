// The parts of a tokenizer.json one by one. Expected values were made by Hugging Face's tokenizers 0.23.3.
#include "data/hf/added_tokens.h"
#include "data/hf/bpe.h"
#include "data/hf/decoder.h"
#include "data/hf/normalizer.h"
#include "data/hf/pre_tokenizer.h"
#include "data/hf/unicode.h"
#include "hf_files.h"
#include "testing.h"

namespace athanor::data::hf {
namespace {

const std::string kFile = "t.json";

std::string normalized(const Json& json, const std::string& text) {
  const nlohmann::json value = nlohmann::json::parse(json.dump());
  const auto normalizer = read_normalizer(Field(value, kFile, "normalizer"));
  std::string buffer;
  Piece piece{text, true};
  normalizer->apply(piece, buffer);
  return std::string(piece.text);
}

std::vector<std::string> words(const Json& json, const std::string& text) {
  const nlohmann::json value = nlohmann::json::parse(json.dump());
  const auto read = read_pre_tokenizer(Field(value, kFile, "pre_tokenizer"));
  if (read.pre_tokenizer == nullptr) return {text};
  std::vector<std::string> words;
  read.pre_tokenizer->split({text, true}, [&](const Piece& p) { words.emplace_back(p.text); });
  return words;
}
using Words = std::vector<std::string>;

TEST(HfNormalizer, EachTypeDoesWhatItsNameSays) {
  EXPECT_EQ(normalized({{"type", "NFC"}}, "e\u0301\u1100\u1161"), "\u00E9\uAC00");
  EXPECT_EQ(normalized({{"type", "NFD"}}, "\u00E9 \u00C0"), "e\u0301 A\u0300");
  EXPECT_EQ(normalized({{"type", "NFKC"}}, "\uFB01\u00A0\u2460"), "fi 1");
  EXPECT_EQ(normalized({{"type", "NFKD"}}, "\u00BD"), "1\u20442");
  EXPECT_EQ(normalized({{"type", "Lowercase"}}, "A\u00C9\u0130\u1C89\uA7CE"),
            "a\u00E9i\u0307\u1C8A\uA7CF");
  EXPECT_EQ(normalized({{"type", "StripAccents"}}, "e\u0301\u0488x"), "ex");
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
                       "\u3000 a \u0085"),
            "a");
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a "),
            " a");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "_"}}, "a"), "_a");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "_"}}, ""), "");
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  EXPECT_EQ(normalized(spaces, "a \t b\n"), "a b ");
  const Json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  EXPECT_EQ(normalized({{"type", "Sequence"}, {"normalizers", {prepend, mark}}}, "a b"),
            "\u2581a\u2581b");
  EXPECT_EQ(
      normalized({{"type", "Sequence"}, {"normalizers", {mark, {{"type", "Lowercase"}}, prepend}}},
                 "A B"),
      "\u2581a\u2581b");
}

TEST(HfNormalizer, MarksAfterUnicode9StayWhereTheyAre) {
  // U+1DF6 (Unicode 10) has class 232, before U+0301's 230 it would move behind.
  EXPECT_EQ(normalized({{"type", "NFC"}}, "q\u1DF6\u0301"), "q\u1DF6\u0301");
  EXPECT_EQ(normalized({{"type", "NFC"}}, "q\u0301\u0316"), "q\u0316\u0301");
}

TEST(HfNormalizer, AMillionMarksInARowAreSortedAsFewAre) {
  std::string text = "a";
  std::string expected = "a";
  std::string above;
  for (int i = 0; i < 1000000; ++i) {
    text += "\u0302\u0316";
    expected += "\u0316";
    above += "\u0302";
  }
  EXPECT_TRUE(normalized({{"type", "NFD"}}, text) == expected + above);
}

TEST(HfPreTokenizer, SplitsByEachBehavior) {
  const auto split = [](const char* behavior, bool invert) {
    return Json{{"type", "Split"},
                {"pattern", {{"String", "-"}}},
                {"behavior", behavior},
                {"invert", invert}};
  };
  const std::string text = "-the--end-";
  EXPECT_EQ(words(split("Removed", false), text), (Words{"the", "end"}));
  EXPECT_EQ(words(split("Removed", true), text), (Words{"-", "-", "-", "-"}));
  EXPECT_EQ(words(split("Isolated", false), text), (Words{"-", "the", "-", "-", "end", "-"}));
  EXPECT_EQ(words(split("MergedWithPrevious", false), text), (Words{"-", "the-", "-", "end-"}));
  EXPECT_EQ(words(split("MergedWithNext", false), text), (Words{"-the", "-", "-end", "-"}));
  EXPECT_EQ(words(split("Contiguous", false), text), (Words{"-", "the", "--", "end", "-"}));
}

TEST(HfPreTokenizer, EachTypeSplitsWhereItsNameSays) {
  EXPECT_EQ(words({{"type", "Digits"}, {"individual_digits", true}}, "a12\u0663"),
            (Words{"a", "1", "2", "\u0663"}));
  EXPECT_EQ(words({{"type", "Digits"}, {"individual_digits", false}}, "a12b"),
            (Words{"a", "12", "b"}));
  EXPECT_EQ(words({{"type", "Punctuation"}, {"behavior", "Isolated"}}, "a.,b$\u00BF"),
            (Words{"a", ".", ",", "b", "$", "\u00BF"}));
  EXPECT_EQ(words({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a.,b"),
            (Words{"a", ".,", "b"}));
  EXPECT_EQ(words({{"type", "WhitespaceSplit"}}, " a\u3000b\u0085 c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(words({{"type", "CharDelimiterSplit"}, {"delimiter", "|"}}, "a|b||c"),
            (Words{"a", "b", "c"}));
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(words(metaspace, "a  b"), (Words{"\u2581a", "\u2581", "\u2581b"}));
  EXPECT_EQ(words(metaspace, " a"), (Words{"\u2581a"}));
  const Json never = {{"type", "Metaspace"},
                      {"replacement", "\u2581"},
                      {"prepend_scheme", "never"},
                      {"split", false}};
  EXPECT_EQ(words(never, "a b"), (Words{"a\u2581b"}));
  EXPECT_EQ(words({{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}}, "a b1"),
            (Words{" a", " b", "1"}));
}

TEST(HfPreTokenizer, StepsBehindByteLevelSeeTheCharactersThatSpellBytes) {
  // As Falcon: the space is Ġ there, so that the pattern finds none.
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Json digits = {{"type", "Split"},
                       {"pattern", {{"Regex", "[0-9]{3}"}}},
                       {"behavior", "Isolated"},
                       {"invert", false}};
  const Json space = {{"type", "Split"},
                      {"pattern", {{"String", " "}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  EXPECT_EQ(words({{"type", "Sequence"}, {"pretokenizers", {level, digits, space}}}, "ab 12345"),
            (Words{"ab", " ", "123", "45"}));
}

std::string decoded(const Json& json, const std::vector<std::string>& tokens) {
  Json file = character_json({"a"}, {});
  for (size_t i = 0; i < tokens.size(); ++i) {
    file["added_tokens"].push_back(added_token(static_cast<int>(i) + 1, tokens[i]));
  }
  file["decoder"] = json;
  const auto tokenizer = make_hf(file);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids.push_back(static_cast<int32_t>(i) + 1);
  return tokenizer->decode(ids, false);
}

TEST(HfDecoder, EachTypeDoesWhatItsNameSays) {
  EXPECT_EQ(decoded(nullptr, {"x", "y"}), "x y");
  EXPECT_EQ(decoded({{"type", "Fuse"}}, {"x", "y"}), "xy");
  EXPECT_EQ(decoded({{"type", "ByteFallback"}}, {"x", "<0xC3>", "<0xA9>", "<0xFF>", "y"}),
            "x\uFFFD\uFFFD\uFFFDy");
  EXPECT_EQ(decoded({{"type", "ByteFallback"}}, {"<0xC3>", "<0xA9>", "y"}), "\u00E9y");
  EXPECT_EQ(decoded({{"type", "ByteFallback"}}, {"<0x+A>", "<0xG0>"}), "\n<0xG0>");
  EXPECT_EQ(decoded({{"type", "ByteLevel"}}, {"\u0120x", "\u00C3", "\u00A9", "a \u0120"}),
            " x\u00E9a \u0120");
  EXPECT_EQ(decoded({{"type", "ByteLevel"}}, {"\u00C3", "x"}), "\uFFFDx");
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(decoded(metaspace, {"\u2581\u2581x", "\u2581y"}), "x y");
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 2}};
  EXPECT_EQ(decoded(strip, {"  x   ", " y "}), " x y");
  EXPECT_EQ(decoded({{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, strip}}},
                    {"  x ", " ", " y   "}),
            " x   y ");
  const Json replace = {{"type", "Replace"}, {"pattern", {{"Regex", "b+"}}}, {"content", "_"}};
  EXPECT_EQ(decoded(replace, {"abba", "b"}), "a_a_");
}

std::vector<int32_t> parts(std::vector<AddedToken> tokens, std::string_view text) {
  for (AddedToken& token : tokens) token.spelling = token.content;
  const AddedTokenMatcher matcher(std::move(tokens));
  std::vector<int32_t> parts;
  matcher.each_part(text, [&](size_t begin, size_t end, int32_t id) {
    parts.insert(parts.end(), {static_cast<int32_t>(begin), static_cast<int32_t>(end), id});
  });
  return parts;
}

TEST(HfAddedTokens, TheLongestOfTheLeftmostIsFound) {
  const std::vector<AddedToken> tokens = {{1, "<a>"}, {2, "<a>!!"}, {3, "a>"}};
  EXPECT_EQ(parts(tokens, "x<a>!<a>!!"),
            (std::vector<int32_t>{0, 1, -1, 1, 4, 1, 4, 5, -1, 5, 10, 2}));
  EXPECT_EQ(parts(tokens, "<a"), (std::vector<int32_t>{0, 2, -1}));
  EXPECT_EQ(parts(tokens, ""), (std::vector<int32_t>{}));
}

TEST(HfAddedTokens, FlagsTakeSpacesAndMindWords) {
  AddedToken left{1, "L"};
  left.lstrip = true;
  AddedToken right{2, "R"};
  right.rstrip = true;
  AddedToken word{3, "W"};
  word.single_word = true;
  const std::vector<AddedToken> tokens = {left, right, word};
  EXPECT_EQ(parts(tokens, "a \u3000L b"), (std::vector<int32_t>{0, 1, -1, 1, 6, 1, 6, 8, -1}));
  EXPECT_EQ(parts(tokens, "R  L"), (std::vector<int32_t>{0, 3, 2, 3, 4, 1}));
  AddedToken lines{4, "\n\n"};
  lines.lstrip = lines.rstrip = true;
  EXPECT_EQ(parts({lines}, "a\n\n\n\n \n\nb"), (std::vector<int32_t>{0, 1, -1, 1, 8, 4, 8, 9, -1}))
      << "what the first has taken is no second one";
  lines.lstrip = false;
  EXPECT_EQ(parts({lines}, "\n\n\n\nb"), (std::vector<int32_t>{0, 4, 4, 2, 4, 4, 4, 5, -1}));
  EXPECT_EQ(parts(tokens, "WW W_ W\u0301 W."),
            (std::vector<int32_t>{0, 10, -1, 10, 11, 3, 11, 12, -1}));
}

TEST(HfAddedTokens, AMillionOfThemThatTakeSpacesAreNotQuadratic) {
  AddedToken lines{1, "\n\n"};
  const std::string text(1'000'000, '\n');
  for (const bool left : {false, true}) {
    lines.lstrip = left;
    lines.rstrip = true;
    EXPECT_EQ(parts({lines}, text).size(), left ? 3u : 1'500'000u);
  }
}

TEST(HfMerges, LongWordsAreMergedAsShortOnesAre) {
  RandomStream random(1, 9);
  MergeTable merges(400);
  for (uint32_t rank = 0; rank < 400; ++rank) {
    const auto left = static_cast<int32_t>(random.below(24));
    const auto right = static_cast<int32_t>(random.below(24));
    if (merges.find(left, right).rank == Merge::kNone) {
      merges.insert(left, right, {rank, static_cast<int32_t>(random.below(24))});
    }
  }
  MergeScratch scratch;
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(random.below(200));
    for (int32_t& id : ids) id = static_cast<int32_t>(random.below(24));
    std::vector<int32_t> expected = ids;
    while (true) {  // by the book
      size_t best = 0;
      uint32_t rank = Merge::kNone;
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        const Merge merge = merges.find(expected[i], expected[i + 1]);
        if (merge.rank < rank) {
          rank = merge.rank;
          best = i;
        }
      }
      if (rank == Merge::kNone) break;
      expected[best] = merges.find(expected[best], expected[best + 1]).id;
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    merge_all(merges, ids, scratch);
    ASSERT_EQ(ids, expected);
  }
}

TEST(HfWordCache, KeysAreTheBytesAndTheLength) {
  const std::string text = std::string("ab\0\0", 4) + "abcdefghijklmnop";
  for (size_t a = 1; a <= WordCache::kLongestWord; ++a) {
    const auto key = WordCache::key_of(std::string_view(text).substr(0, a), text.size());
    const std::string copy = text.substr(0, a);
    EXPECT_EQ(key, WordCache::key_of(copy, copy.size()));
    for (size_t b = 1; b < a; ++b) {
      EXPECT_NE(key, WordCache::key_of(std::string_view(text).substr(0, b), text.size()));
    }
  }
}

TEST(HfUnicode, ReadsAndWritesEveryCharacter) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text = "\u65E5";
    append_utf8(text, c);
    ASSERT_EQ(last_character(text).code, c);
    ASSERT_EQ(first_character(text.data() + 3).bytes, text.size() - 3);
  }
}

}  // namespace
}  // namespace athanor::data::hf
