// Tokenizers that are learned: what is in them, that nothing is lost, and that they do what their merges say.
#include "data/bpe_train.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/hf/byte_level.h"
#include "data/hf/unicode.h"
#include "data/tokenizer_export.h"
#include "data/tokenizer_train.h"
#include "testing.h"

namespace athanor::data {
namespace {

std::unique_ptr<Tokenizer> learn(const std::vector<std::string>& texts, const BpeTraining& options,
                                 int threads = 2) {
  const auto documents = read_texts(texts);
  return train_bpe(*documents, options, Threads(threads));
}

const Tokenizer& learned(bool byte_level) {
  const auto train = [](bool bytes) {
    return learn(sample_corpus(300, 1), {.byte_level = bytes, .vocab_size = 900});
  };
  static const auto level = train(true);
  static const auto fallback = train(false);
  return byte_level ? *level : *fallback;
}

/// Byte pair encoding as it is defined: of all neighbours the pair of the first merge is joined, again and again.
class PlainEncoder {
 public:
  explicit PlainEncoder(const Tokenizer& tokenizer)
      : json_(nlohmann::json::parse(tokenizer.files()[0].second)) {
    const auto& merges = json_.at("model").at("merges");
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      ranks_.emplace(std::pair(merges[rank][0], merges[rank][1]), rank);
    }
  }
  /// A word as its parts, given its units.
  void encode(std::vector<std::string> parts, std::vector<int32_t>& ids) const {
    while (true) {
      size_t best = parts.size();
      size_t best_rank = ranks_.size();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = ranks_.find({parts[i], parts[i + 1]});
        if (found != ranks_.end() && found->second < best_rank) {
          best = i;
          best_rank = found->second;
        }
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    for (const std::string& part : parts) ids.push_back(json_.at("model").at("vocab").at(part));
  }
  bool knows(const std::string& token) const {
    return json_.at("model").at("vocab").contains(token);
  }

 private:
  nlohmann::json json_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < text.size();) {
    characters.push_back(text.substr(at, hf::first_character(text.data() + at).bytes));
    at += characters.back().size();
  }
  return characters;
}

TEST(TrainBpe, LearnsWhatFollowsByHand) {
  // " ab" occurs three times, "ab" once: ab four times, then " ab" three times; nothing else occurs twice.
  const auto tokenizer = learn({"ab ab ab ab cd"}, {.vocab_size = 261});
  EXPECT_EQ(tokenizer->vocab_size(), 261);
  EXPECT_EQ(tokenizer->piece(0), "<|pad|>");
  EXPECT_EQ(tokenizer->piece(1), "<|begin_of_text|>");
  EXPECT_EQ(tokenizer->piece(2), "<|end_of_text|>");
  EXPECT_EQ(tokenizer->piece(3), "!");
  EXPECT_EQ(tokenizer->piece(259), "ab");
  EXPECT_EQ(tokenizer->piece(260), "\u0120ab");
  const SpecialIds special = tokenizer->special();
  EXPECT_EQ(special.pad, 0);
  EXPECT_EQ(special.bos, 1);
  EXPECT_EQ(special.eos, 2);
  EXPECT_EQ(special.unk, -1);
  EXPECT_EQ(tokenizer->encode("ab ab"), (std::vector<int32_t>{259, 260}));

  const auto fallback = learn({"ab ab ab ab cd"}, {.byte_level = false, .vocab_size = 400});
  EXPECT_EQ(fallback->piece(0), "<unk>");
  EXPECT_EQ(fallback->piece(3), "<pad>");
  EXPECT_EQ(fallback->piece(4), "<0x00>");
  EXPECT_EQ(fallback->piece(260), "a");
  EXPECT_EQ(fallback->piece(264), "\u2581");
  EXPECT_EQ(fallback->piece(265), "ab");
  EXPECT_EQ(fallback->piece(266), "\u2581ab");
  EXPECT_EQ(fallback->vocab_size(), 267);
  EXPECT_EQ(fallback->special().unk, 0);
  EXPECT_EQ(fallback->special().eos, 2);
}

TEST(TrainBpe, DecodingIsTheInverseOfEncoding) {
  for (const bool bytes : {true, false}) {
    const Tokenizer& tokenizer = learned(bytes);
    EXPECT_EQ(tokenizer.vocab_size(), 900);
    std::vector<std::string> texts = sample_corpus(20, 77);
    for (const std::string& text : hostile_texts()) texts.push_back(text);
    std::string all;
    for (char32_t c = 0; c < 0x3000; ++c) {
      if (bytes || c != 0x2581) hf::append_utf8(all, c);
    }
    texts.push_back(all);
    for (const std::string& text : texts) {
      const std::vector<int32_t> ids = tokenizer.encode(text);
      ASSERT_EQ(tokenizer.decode(ids, false), text);
      for (const int32_t id : ids) ASSERT_TRUE(id >= 0 && id < tokenizer.vocab_size());
    }
    EXPECT_LT(tokenizer.encode(texts[0]).size() * 3, texts[0].size()) << "nothing was learned";
  }
}

TEST(TrainBpe, EncodesAsItsMergesSay) {
  const PlainEncoder level(learned(true));
  const PlainEncoder fallback(learned(false));
  for (const std::string& text : sample_corpus(40, 5)) {
    std::vector<int32_t> expected;
    for (const std::string& word : learned(true).words(text)) {
      level.encode(characters_of(hf::spell_bytes(word)), expected);
    }
    ASSERT_EQ(learned(true).encode(text), expected);
    expected.clear();
    for (const std::string& word : learned(false).words(text)) {
      std::vector<std::string> units;
      for (const std::string& character : characters_of(word)) {
        if (fallback.knows(character)) {
          units.push_back(character);
          continue;
        }
        for (const char byte : character) {
          char spelled[8];
          std::snprintf(spelled, sizeof spelled, "<0x%02X>", static_cast<unsigned char>(byte));
          units.emplace_back(spelled);
        }
      }
      fallback.encode(units, expected);
    }
    ASSERT_EQ(learned(false).encode(text), expected);
  }
}

TEST(TrainBpe, IsTheSameForAnyNumberOfThreadsAndAfterLoading) {
  const TemporaryFolder folder;
  for (const bool bytes : {true, false}) {
    const BpeTraining options{.byte_level = bytes, .vocab_size = 900};
    const std::vector<std::string> texts = sample_corpus(300, 1);
    EXPECT_EQ(learn(texts, options, 1)->identity(), learned(bytes).identity());
    EXPECT_EQ(learn(texts, options, 5)->identity(), learned(bytes).identity());
    const fs::path model = folder / (bytes ? "level" : "fallback");
    fs::create_directories(model);
    export_tokenizer(learned(bytes), model);
    const auto loaded = load_tokenizer(model);
    EXPECT_EQ(loaded->identity(), learned(bytes).identity());
    EXPECT_EQ(loaded->special().pad, learned(bytes).special().pad);
    EXPECT_EQ(loaded->special().eos, learned(bytes).special().eos);
    EXPECT_EQ(loaded->files(), learned(bytes).files());
  }
}

TEST(TrainBpe, SpecialTokensOfTheUserAreOneIdAndNotLearnedFrom) {
  const std::vector<std::string> texts(50, "<|im_start|>user<|im_end|>");
  for (const bool bytes : {true, false}) {
    const auto tokenizer = learn(
        texts, {.byte_level = bytes, .vocab_size = 400, .special = {"<|im_start|>", "<|im_end|>"}});
    const int32_t first = bytes ? 3 : 4;
    const std::vector<int32_t> ids = tokenizer->encode(texts[0]);
    ASSERT_EQ(ids.size(), 3u);
    EXPECT_EQ(ids.front(), first);
    EXPECT_EQ(ids.back(), first + 1);
    EXPECT_EQ(tokenizer->piece(ids[1]), "user");
    EXPECT_EQ(tokenizer->decode(ids), "user");
    EXPECT_EQ(tokenizer->decode(ids, false), texts[0]);
    // us, er, user: what stands inside the marks is not there.
    EXPECT_EQ(tokenizer->vocab_size(), bytes ? 264 : 269);
  }
}

TEST(TrainBpe, NoMergeSpellsASpecialOrAByteToken) {
  const std::vector<std::string> texts(50, "of the <0x0A> the newline, <0x0A> the end");
  for (const bool bytes : {true, false}) {
    // As text it is these five characters; as a learned token it would be " the".
    const std::string special = bytes ? "\u0120the" : "\u2581the";
    const auto tokenizer =
        learn(texts, {.byte_level = bytes, .vocab_size = 400, .special = {special}});
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(texts[0])), texts[0]);
    EXPECT_EQ(tokenizer->piece(tokenizer->encode(special)[0]), special);
  }
}

TEST(TrainBpe, RareCharactersAreBytesAndJoinNothing) {
  std::vector<std::string> texts(1000, "a line that comes again and again\n");
  for (int i = 0; i < 100; ++i) texts.emplace_back("x, y, ");
  texts.emplace_back("x\u00E9y x\u00E9y");
  const auto rare = learn(texts, {.byte_level = false, .vocab_size = 400});
  EXPECT_EQ(rare->piece(rare->encode("\u00E9")[0]), "<0xC3>");
  EXPECT_EQ(rare->piece(rare->encode("xy")[0]), "x") << "joined over a character that is no token";
  for (int i = 0; i < 20; ++i) texts.emplace_back("x\u00E9y x\u00E9y");
  const auto frequent = learn(texts, {.byte_level = false, .vocab_size = 400});
  EXPECT_EQ(frequent->piece(frequent->encode("\u00E9")[0]), "\u00E9");
}

TEST(TrainBpe, CharactersTakeAtMostHalfOfTheRoomAndTheMostFrequentStay) {
  std::string text;
  for (char32_t c = 0x4E00; c < 0x4E00 + 200; ++c) {
    for (char32_t n = c; n < 0x4E00 + 210; ++n) hf::append_utf8(text, c);
  }
  ::testing::internal::CaptureStderr();
  const auto tokenizer = learn({text}, {.byte_level = false, .vocab_size = 360});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("room for 50 of the text's 200 characters"), std::string::npos) << said;
  EXPECT_EQ(tokenizer->piece(260), "\u4E00");
  EXPECT_EQ(tokenizer->piece(309), "\u4E31");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(TrainBpe, TooLargeAVocabularyIsLowered) {
  for (const bool bytes : {true, false}) {
    ::testing::internal::CaptureStderr();
    const auto tokenizer =
        learn({"the king and the lord of the land"}, {.byte_level = bytes, .vocab_size = 8192});
    const std::string said = ::testing::internal::GetCapturedStderr();
    const std::string number = std::to_string(tokenizer->vocab_size());
    EXPECT_NE(said.find("a vocabulary of " + number + " only, not 8192"), std::string::npos)
        << said;
    EXPECT_GT(tokenizer->vocab_size(), 259);
    EXPECT_LT(tokenizer->vocab_size(), 300);
  }
}

TEST(TrainBpe, ImpossibleOrdersAreRefused) {
  const std::vector<std::string> texts = sample_corpus(5, 4);
  const auto refused = [&](ExitCode code, const std::vector<std::string>& parts,
                           const BpeTraining& options) {
    expect_error(code, parts, [&] { learn(texts, options); });
  };
  refused(ExitCode::kUsage, {"vocabulary of 258", "259"}, {.vocab_size = 258});
  EXPECT_EQ(learn(texts, {.vocab_size = 259})->vocab_size(), 259);
  refused(ExitCode::kUsage, {"vocabulary of 259", "260"}, {.byte_level = false, .vocab_size = 259});
  refused(ExitCode::kUsage, {"is empty"}, {.special = {""}});
  refused(ExitCode::kUsage, {"'<|x|>'", "already"}, {.special = {"<|x|>", "<|x|>"}});
  refused(ExitCode::kUsage, {"'<|pad|>'", "already"}, {.special = {"<|pad|>"}});
  refused(ExitCode::kUsage, {"'<0x41>'", "already"}, {.byte_level = false, .special = {"<0x41>"}});
  refused(ExitCode::kUsage, {"single character"}, {.special = {"a"}});
  refused(ExitCode::kUsage, {"not UTF-8"}, {.special = {"\xFF\xFE"}});
  expect_error(ExitCode::kData, {"no text"}, [] { learn({"", ""}, {}); });
}

TEST(TrainTokenizer, IsTheDoorToAllKinds) {
  const std::vector<std::string> texts = sample_corpus(300, 1);
  const auto train = [&](const TokenizerTraining& options) {
    const auto documents = read_texts(texts);
    return train_tokenizer(*documents, options, Threads(2));
  };
  EXPECT_EQ(train({.vocab_size = 900})->identity(), learned(true).identity());
  EXPECT_EQ(train({.kind = TrainedKind::kByteFallback, .vocab_size = 900})->identity(),
            learned(false).identity());
  const auto unigram = train({.kind = TrainedKind::kUnigram, .vocab_size = 500});
  EXPECT_EQ(unigram->kind(), TokenizerKind::kUnigram);
  expect_error(ExitCode::kUsage, {"unigram"},
               [&] { train({.kind = TrainedKind::kUnigram, .special = {"<|x|>"}}); });
  EXPECT_EQ(trained_kind("byte-fallback"), TrainedKind::kByteFallback);
  EXPECT_STREQ(name_of(TrainedKind::kByteLevel), "byte-level");

  const auto sampled = [&](uint64_t seed) {
    return train({.vocab_size = 600, .max_bytes = 30'000, .seed = seed})->identity();
  };
  EXPECT_EQ(sampled(1), sampled(1));
  EXPECT_NE(sampled(1), sampled(2));
}

}  // namespace
}  // namespace athanor::data
