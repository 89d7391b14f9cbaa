// Patterns of tokenizer.json: translation to PCRE2, and the hand-written matchers against it.
#include <stdexcept>

#include "data/hf/known_patterns.h"
#include "data/hf/pattern.h"
#include "data/hf/unicode.h"
#include "testing.h"

namespace athanor::data::hf {
namespace {

std::vector<std::string> matches_of(const std::string& regex, std::string_view text) {
  std::vector<std::string> matches;
  regex_pattern(regex)->each_match(text, [&](size_t begin, size_t end) {
    matches.emplace_back(text.substr(begin, end - begin));
  });
  return matches;
}
using Texts = std::vector<std::string>;

TEST(HfPattern, IsUnicode16WhateverTheLibraryHas) {
  EXPECT_EQ(matches_of(R"(\p{L}+)", "a\U0001E5D0b \u1C89!"), (Texts{"a\U0001E5D0b", "\u1C89"}));
  EXPECT_EQ(matches_of(R"(\P{L}+)", "a1\U0001E5D0b"), (Texts{"1"}));
  EXPECT_EQ(matches_of(R"([^\s\p{L}]+)", "\U0001E5D0 +\u0085 9\u200B"), (Texts{"+", "9\u200B"}));
  EXPECT_EQ(matches_of(R"(\s+)", "a\u0085\u3000b\u200Bc\x1C"), (Texts{"\u0085\u3000"}));
  EXPECT_EQ(matches_of(R"(\d+)", "12\u0663\u00B2"), (Texts{"12\u0663"}));
  EXPECT_EQ(matches_of(R"([\P{L}]+)", "ab12"), (Texts{"12"}));
}

TEST(HfPattern, ReadsWhatOnigurumaReadsOtherwise) {
  // {n,m}+ repeats the repetition; PCRE2 alone would take it for one that never gives back.
  EXPECT_EQ(matches_of(R"(\d{1,2}+3)", "12123"), (Texts{"12123"}));
  EXPECT_EQ(matches_of("a{,2}", "aaa"), (Texts{"aa", "a"}));
  EXPECT_EQ(matches_of("a{2}?b", "b aab"), (Texts{"b", "aab"}));
  EXPECT_EQ(matches_of("a{x}", "a{x}"), (Texts{"a{x}"}));
  EXPECT_EQ(matches_of("a$", "a\na"), (Texts{"a", "a"}));
  EXPECT_EQ(matches_of("^b", "b\nbb"), (Texts{"b", "b"}));
  EXPECT_EQ(matches_of("a.", "ab a\n"), (Texts{"ab"}));
  EXPECT_EQ(matches_of("(?m:a.)", "ab a\n"), (Texts{"ab", "a\n"}));
  EXPECT_EQ(matches_of(R"(\h+)", "xF3 g"), (Texts{"F3"}));
  EXPECT_EQ(matches_of(R"(\bq\w+)", "qu eq q\u0301!"), (Texts{"qu", "q\u0301"}));
  EXPECT_EQ(matches_of("(?i:'s|'ll)", "'s 'S '\u017F 'Ll"), (Texts{"'s", "'S", "'\u017F", "'Ll"}));
  EXPECT_EQ(matches_of(R"([!-/:-@\[\]\-]+)", "a-[b]c"), (Texts{"-[", "]"}));
  EXPECT_EQ(matches_of(R"(\s+(?!\S)|\s)", "a   b "), (Texts{"  ", " ", " "}));
  EXPECT_EQ(matches_of("x*", "axxb"), (Texts{"", "xx", ""}));
  // The fractions of Latin-1 are \w, but not in brackets.
  EXPECT_EQ(matches_of(R"(\w+|[^\w\s]+)", "a\u00BDb \u2460\u00BD"),
            (Texts{"a\u00BDb", "\u2460\u00BD"}));
  EXPECT_EQ(matches_of(R"([\w]+)", "a\u00BDb"), (Texts{"a", "b"}));
}

TEST(HfPattern, RefusesWhatItDoesNotKnow) {
  for (const char* regex : {"(",       ")",
                            "a**b)",   "[a",
                            "[]",      "[a[b]]",
                            "[a&&b]",  R"(\q)",
                            R"(\1)",   R"(\p{Klingon})",
                            R"(\p)",   R"(\x{110000})",
                            "*a",      "(?i:\xC3\x9F)",
                            "(?i:ss)", "(?x:a)",
                            "(?<n>a)", "a(?i)b",
                            "a{1001}", "a{3,2}",
                            "\\"}) {
    EXPECT_THROW(regex_pattern(regex), std::invalid_argument) << regex;
  }
}

TEST(HfPattern, GivesUpOnPatternsThatExplode) {
  const std::string text(40, 'a');
  expect_error(ExitCode::kData, {"too much"}, [&] { matches_of("(?:a+a+)+b", text + "cb"); });
}

/// Spellings that are matched by hand, and their own.
const std::pair<const char*, const char*> kKnown[] = {
    {"gpt2", kGpt2Regex},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"cl100k",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"o200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

TEST(HfKnownPatterns, SplitAsTheirRegularExpressionsDo) {
  static const char* const kParts[] = {
      "a",      "B",       "word",   "Word",   "WORD",       "1",          "1234",
      " ",      "  ",      "\n",     "\r\n",   "\t",         "'",          "'s",
      "'S",     "'\u017F", "'ll",    "'LL",    "'re",        "'v",         ".",
      "...",    "/",       "-",      "_",      "\u00E9",     "\u0301",     "\u00C9",
      "\u01C5", "\u02B0",  "\u65E5", "\u00A0", "\u3000",     "\u0085",     "\u2028",
      "\u0663", "\u2167",  "\u00B2", "\u200B", "\U0001F600", "\U0001E5D0", "\u0E01\u0E33",
      "\u0903", "\uFFFD",  "\u0378"};
  RandomStream random(3, 1);
  for (const auto& [name, regex] : kKnown) {
    const auto known = known_pattern(regex);
    ASSERT_TRUE(known.has_value()) << name;
    const auto pattern = regex_pattern(regex);
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (uint64_t n = random.below(12); n > 0; --n)
        text += kParts[random.below(std::size(kParts))];
      Texts expected;
      pattern->each_match(text, [&](size_t begin, size_t end) {
        expected.push_back(text.substr(begin, end - begin));
      });
      Texts words;
      std::string joined;
      each_word(*known, text, [&](size_t begin, size_t end) {
        words.push_back(text.substr(begin, end - begin));
        joined += words.back();
      });
      ASSERT_EQ(words, expected) << name << ": " << testing::PrintToString(text);
      ASSERT_EQ(joined, text) << name;
    }
  }
}

TEST(HfKnownPatterns, KnowEveryCharacterAsTheirRegularExpressionsDo) {
  for (const auto& [name, regex] : kKnown) {
    const auto pattern = regex_pattern(regex);
    for (const char* around : {"", "a", " ", "'", "A"}) {
      std::string text;
      for (char32_t c = 0; c < 0x110000; ++c) {
        if (c == 0xD800) c = 0xE000;
        text += around;
        append_utf8(text, c);
      }
      std::vector<size_t> expected;
      pattern->each_match(text, [&](size_t, size_t end) { expected.push_back(end); });
      std::vector<size_t> ends;
      each_word(*known_pattern(regex), text, [&](size_t, size_t end) { ends.push_back(end); });
      ASSERT_TRUE(ends == expected) << name << " around \"" << around << "\"";
    }
  }
}

}  // namespace
}  // namespace athanor::data::hf
