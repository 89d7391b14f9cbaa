// Tokens to shown text: whole characters, and stop strings of which nothing is shown.
#include "infer/text_writer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "data/utf8.h"
#include "support/golden.h"

namespace athanor::infer {
namespace {

TEST(StopStrings, EndTheTextInFrontOfThem) {
  const auto shown = [](std::vector<std::string> strings, const std::vector<std::string>& pieces) {
    StopStrings stop(std::move(strings));
    std::string text;
    for (const std::string& piece : pieces) text += stop.push(piece);
    text += stop.finish();
    return text + (stop.stopped() ? "|" : "");
  };
  EXPECT_EQ(shown({"stop"}, {"a st", "op b"}), "a |");
  EXPECT_EQ(shown({"stop"}, {"a st", "ip"}), "a stip");
  EXPECT_EQ(shown({"stop"}, {"a sto"}), "a sto");
  EXPECT_EQ(shown({"aab"}, {"a", "a", "a", "b", "c"}), "a|");
  EXPECT_EQ(shown({"abc", "b"}, {"xabc"}), "xa|") << "the first that is complete counts";
  EXPECT_EQ(shown({"bc", "abcd"}, {"xab", "c"}), "xa|");
  EXPECT_EQ(shown({"\n\n"}, {"a\n", "b\n", "\n"}), "a\nb|");
  EXPECT_EQ(shown({}, {"a", "b"}), "ab");
  EXPECT_EQ(shown({"é"}, {"caf", "é!"}), "caf|");
}

TEST(StopStrings, EqualASearchInTheWholeTextWhateverThePieces) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomStream random(seed, stream_of("stops"));
    const auto word = [&](uint64_t most) {
      std::string text;
      for (uint64_t n = 1 + random.below(most); n > 0; --n) {
        text += random.below(2) == 0 ? "a" : "é";
      }
      return text;
    };
    const std::string text = word(40);
    const std::vector<std::string> strings = {word(5), word(7)};
    StopStrings stop(strings);
    std::string shown;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(text.size(), begin + 1 + random.below(6));
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      const std::string piece = stop.push(std::string_view(text).substr(begin, end - begin));
      EXPECT_EQ(data::valid_utf8_prefix(piece), piece.size());
      shown += piece;
      // Of what is certain nothing is held back longer than the strings are.
      EXPECT_TRUE(stop.stopped() || end - shown.size() < 14);
      begin = end;
    }
    shown += stop.finish();
    size_t first = text.size();
    size_t first_end = text.size() + 1;
    for (size_t end = 1; end <= text.size() && first_end > text.size(); ++end) {
      for (const std::string& wanted : strings) {
        if (!std::string_view(text).substr(0, end).ends_with(wanted)) continue;
        first = std::min(first, end - wanted.size());
        first_end = end;
      }
    }
    EXPECT_EQ(shown, text.substr(0, first)) << text << " " << strings[0] << " " << strings[1];
    EXPECT_EQ(stop.stopped(), first < text.size());
  }
}

TEST(StopStrings, EmptyAndBrokenOnesAreRefused) {
  EXPECT_NO_THROW(check_stop_strings({"a", "é"}));
  EXPECT_THROW(check_stop_strings({"a", ""}), Error);
  EXPECT_THROW(check_stop_strings({"\xC3"}), Error);
}

class Tokenizers : public testing::TestWithParam<const char*> {};

TEST_P(Tokenizers, AnyIdsAreShownAsWholeCharactersThatJoinToTheirDecoding) {
  const auto tokenizer = GetParam() == std::string_view("bytes")
                             ? data::make_byte_tokenizer()
                             : data::load_tokenizer(*test::golden_folder(
                                   std::string("tokenizers_sample/") + GetParam()));
  int replaced = 0;
  int held = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream random(seed, stream_of("ids"));
    TextWriter writer(tokenizer.get(), {}, {});
    std::vector<int32_t> ids;
    std::string joined;
    for (int i = 0; i < 60; ++i) {
      // Bytes and beginnings of characters more often than their share.
      const int32_t most = random.below(2) == 0 ? 260 : tokenizer->vocab_size();
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(most))));
      const std::string piece = writer.push(ids.back());
      EXPECT_EQ(data::valid_utf8_prefix(piece), piece.size()) << "a character is cut";
      held += piece.empty() ? 1 : 0;
      joined += piece;
    }
    joined += writer.finish();
    EXPECT_EQ(joined, tokenizer->decode(ids));
    EXPECT_EQ(*writer.text(), joined);
    EXPECT_EQ(writer.ids(), ids);
    replaced += joined.find("\xEF\xBF\xBD") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(replaced, 10) << "the sample has broken characters";
  EXPECT_GT(held, 100) << "and such that come in parts";
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tokenizers,
                         testing::Values("bytes", "bytelevel-gpt2", "qwen-like",
                                         "metaspace-llama2"));

TEST(TextWriter, ShowsNothingOfAStopToken) {
  const auto bytes = data::make_byte_tokenizer();
  TextWriter writer(bytes.get(), {.stop_tokens = {'z'}}, {});
  EXPECT_EQ(writer.push('a'), "a");
  EXPECT_EQ(writer.push('z'), "");
  EXPECT_EQ(writer.finish(), "");
  EXPECT_EQ(writer.ids(), (std::vector<int32_t>{'a', 'z'}));
  EXPECT_STREQ(finish_reason(Ending::kStopToken, writer), "eos");
  EXPECT_STREQ(finish_reason(Ending::kLength, writer), "length");
}

TEST(TextWriter, AStopStringEndsWithinAToken) {
  const auto bytes = data::make_byte_tokenizer();
  TextWriter writer(bytes.get(), {}, {"bc"});
  std::string text;
  for (const char c : std::string("abbcd")) text += writer.push(c);
  EXPECT_TRUE(writer.stopped());
  text += writer.finish();
  EXPECT_EQ(text, "ab");
  EXPECT_STREQ(finish_reason(Ending::kStopped, writer), "stop");
}

}  // namespace
}  // namespace athanor::infer
