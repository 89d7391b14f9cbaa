#include "data/tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>

#include "data/sentencepiece_train.h"
#include "data/tokenizer_export.h"
#include "data/utf8.h"
#include "testing.h"

namespace athanor::data {
namespace {

using std::string_literals::operator""s;

/// One trained tokenizer of each kind, for all tests.
const Tokenizer& trained(TokenizerKind kind) {
  const auto train = [](TokenizerKind wanted) {
    const std::vector<std::string> texts = sample_corpus(200, 1);
    const auto documents = read_texts(texts);
    return train_sentencepiece(*documents, {.kind = wanted, .vocab_size = 700});
  };
  static const auto unigram = train(TokenizerKind::kUnigram);
  static const auto bpe = train(TokenizerKind::kBpe);
  return kind == TokenizerKind::kUnigram ? *unigram : *bpe;
}

std::vector<const Tokenizer*> all_kinds() {
  static const auto bytes = make_byte_tokenizer();
  return {bytes.get(), &trained(TokenizerKind::kUnigram), &trained(TokenizerKind::kBpe)};
}

std::vector<std::string> test_texts() {
  std::vector<std::string> texts = hostile_texts();
  for (const std::string& text : sample_corpus(20, 77)) texts.push_back(text);
  // Random characters of all planes.
  RandomStream random(5, 5);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (uint64_t n = random.below(60); n > 0; --n) {
      static const char* const kParts[] = {
          "a", "the",  " ",   "  ", "\n", "\t", "\xC3\xA9", "Z", "\xE6\x97\xA5", "\xF0\x9F\x98\x80",
          ",", "\r\n", "king"};
      text += kParts[random.below(13)];
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(Tokenizer, DecodingIsTheInverseOfEncoding) {
  for (const Tokenizer* tokenizer : all_kinds()) {
    for (const std::string& text : test_texts()) {
      const std::vector<int32_t> ids = tokenizer->encode(text);
      ASSERT_EQ(tokenizer->decode(ids), text) << name_of(tokenizer->kind());
      for (const int32_t id : ids) ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
    }
  }
}

TEST(Tokenizer, SentencePieceGivesAMarkBackAsASpace) {
  EXPECT_EQ(all_kinds()[0]->decode(all_kinds()[0]->encode("a\xE2\x96\x81z")), "a\xE2\x96\x81z");
  for (const Tokenizer* tokenizer : {all_kinds()[1], all_kinds()[2]}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xE2\x96\x81z")), "a z");
    EXPECT_EQ(tokenizer->encode("a\xE2\x96\x81z"), tokenizer->encode("a z"));
  }
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  for (const Tokenizer* tokenizer : all_kinds()) {
    expect_error(ExitCode::kData, {"not UTF-8", "byte 5"}, [&] { tokenizer->encode("hello\xFF"); });
  }
}

TEST(Tokenizer, SpecialIdsStandAtTheEnds) {
  for (const Tokenizer* tokenizer : all_kinds()) {
    const SpecialIds special = tokenizer->special();
    std::vector<int32_t> ids = tokenizer->encode("the king");
    const std::vector<int32_t> alone = ids;
    tokenizer->add_special(ids);
    ASSERT_EQ(ids.size(), alone.size() + 2);
    EXPECT_EQ(ids.front(), special.bos);
    EXPECT_EQ(ids.back(), special.eos);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), ids.begin() + 1));
    EXPECT_EQ(tokenizer->decode(ids), "the king");
  }
  const std::vector<int32_t> spelled = {256, 'a', 257};
  EXPECT_EQ(all_kinds()[0]->decode(spelled, false), "<s>a</s>");
  EXPECT_EQ(all_kinds()[0]->vocab_size(), 258);
  EXPECT_EQ(all_kinds()[1]->special().unk, 0);
  EXPECT_EQ(all_kinds()[1]->special().bos, 1);
  EXPECT_EQ(all_kinds()[1]->special().eos, 2);
}

TEST(Tokenizer, IdsOutsideTheVocabularyGiveNothing) {
  for (const Tokenizer* tokenizer : all_kinds()) {
    std::vector<int32_t> ids = tokenizer->encode("king");
    ids.insert(ids.begin() + 1, {-1, tokenizer->vocab_size(), 1 << 30});
    EXPECT_EQ(tokenizer->decode(ids), "king");
    expect_error(ExitCode::kUsage, {"outside the vocabulary"},
                 [&] { tokenizer->piece(tokenizer->vocab_size()); });
  }
}

TEST(Tokenizer, StreamsOfAnyIdsNeverCutACharacter) {
  for (const Tokenizer* tokenizer : all_kinds()) {
    RandomStream random(11, 3);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids;
      for (uint64_t n = random.below(40); n > 0; --n) {
        // Byte pieces above all, so that broken and whole characters come about.
        ids.push_back(static_cast<int32_t>(random.below(random.below(2) == 0 ? 262 : 700)));
      }
      const auto stream = tokenizer->stream_decoder();
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = stream->push(id);
        ASSERT_EQ(valid_utf8_prefix(part), part.size());
        text += part;
      }
      text += stream->finish();
      ASSERT_EQ(text, tokenizer->decode(ids));
      ASSERT_EQ(valid_utf8_prefix(text), text.size());
    }
  }
}

/// The library itself, given whole texts.
class Library {
 public:
  explicit Library(const Tokenizer& tokenizer) {
    EXPECT_TRUE(processor_.LoadFromSerializedProto(tokenizer.files()[0].second).ok());
  }
  std::vector<int32_t> encode(const std::string& text) const {
    std::vector<int> ids;
    EXPECT_TRUE(processor_.Encode(text, &ids).ok());
    return ids;
  }
  double score(const std::vector<int32_t>& ids) const {
    double sum = 0;
    for (const int32_t id : ids) sum += processor_.GetScore(id);
    return sum;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

TEST(Tokenizer, CuttingTextsChangesNoIdOfBpe) {
  const Tokenizer& bpe = *all_kinds()[2];
  const Library library(bpe);
  std::vector<std::string> texts = test_texts();
  std::string large;
  for (const std::string& text : sample_corpus(300, 9)) large += text;
  EXPECT_GT(large.size(), 200000u);
  texts.push_back(large);
  for (const std::string& text : texts) ASSERT_EQ(bpe.encode(text), library.encode(text));
}

TEST(Tokenizer, CuttingTextsChangesUnigramIdsAtTiesOnly) {
  const Tokenizer& unigram = *all_kinds()[1];
  const Library library(unigram);
  int ties = 0;
  const std::vector<std::string> texts = test_texts();
  for (const std::string& text : texts) {
    const auto ours = unigram.encode(text);
    const auto whole = library.encode(text);
    if (ours == whole) continue;
    ++ties;
    ASSERT_EQ(ours.size(), whole.size()) << text;
    // Equal up to the float in which the library adds.
    const double score = library.score(whole);
    ASSERT_NEAR(library.score(ours), score, 0x1p-23 * std::abs(score)) << text;
  }
  EXPECT_LT(ties * 20, static_cast<int>(texts.size()));
}

TEST(Tokenizer, UnigramScoresOfLongTextsDoNotDrownInRounding) {
  // The library adds scores in float over the whole text; word by word it is at least as good.
  const Tokenizer& unigram = *all_kinds()[1];
  const Library library(unigram);
  std::string large;
  for (const std::string& text : sample_corpus(1500, 9)) large += text;
  const double whole = library.score(library.encode(large));
  EXPECT_GE(library.score(unigram.encode(large)), whole - 1e-7 * std::abs(whole));
}

TEST(Tokenizer, ManyThreadsEncodeTheSame) {
  const std::vector<std::string> texts = test_texts();
  for (const Tokenizer* tokenizer : all_kinds()) {
    const auto one = encode_all(*tokenizer, texts, Threads(1));
    EXPECT_EQ(encode_all(*tokenizer, texts, Threads(5)), one);
    for (size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(one[i], tokenizer->encode(texts[i]));
  }
}

TEST(LoadTokenizer, KnowsEveryKindByContentWhateverTheName) {
  const TemporaryFolder folder;
  for (const Tokenizer* tokenizer : all_kinds()) {
    const fs::path model = folder / name_of(tokenizer->kind());
    fs::create_directories(model);
    EXPECT_FALSE(holds_tokenizer(model));
    export_tokenizer(*tokenizer, model);
    EXPECT_TRUE(holds_tokenizer(model));
    const auto files = tokenizer->files();
    const fs::path renamed = folder.write("any.name", files[0].second);
    for (const fs::path& path : {model, model / files[0].first, renamed}) {
      const auto again = load_tokenizer(path);
      EXPECT_EQ(again->identity(), tokenizer->identity());
      EXPECT_EQ(again->kind(), tokenizer->kind());
      EXPECT_EQ(again->encode("the king, \n\xC3\xA9"), tokenizer->encode("the king, \n\xC3\xA9"));
    }
  }
  EXPECT_NE(all_kinds()[1]->identity(), all_kinds()[2]->identity());
}

TEST(LoadTokenizer, OfTwoInAFolderTheJsonCounts) {
  const TemporaryFolder folder;
  const Tokenizer& sentencepiece = *all_kinds()[1];
  ASSERT_NE(sentencepiece.kind(), TokenizerKind::kBytes);
  export_tokenizer(sentencepiece, folder.path());
  EXPECT_EQ(load_tokenizer(folder.path())->identity(), sentencepiece.identity())
      << "the JSON is ours";
  const auto bytes = make_byte_tokenizer();
  folder.write("tokenizer.json", bytes->files()[0].second);
  EXPECT_EQ(load_tokenizer(folder.path())->identity(), bytes->identity());
  folder.write("tokenizer.json", R"({"model":{"type":"WordPiece","vocab":{"a":0}}})");
  EXPECT_EQ(load_tokenizer(folder.path())->identity(), sentencepiece.identity());
}

TEST(LoadTokenizer, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& name) {
    return [&, name] { load_tokenizer(folder / name); };
  };
  expect_error(ExitCode::kData, {"missing"}, load("missing"));
  fs::create_directories(folder / "empty");
  expect_error(ExitCode::kData, {"empty", "tokenizer.model"}, load("empty"));
  folder.write("text", "hello there");
  expect_error(ExitCode::kData, {"not a tokenizer"}, load("text"));
  folder.write("none", "");
  expect_error(ExitCode::kData, {"not a tokenizer"}, load("none"));
  folder.write("hf.json", R"({"model":{"type":"WordPiece","vocab":{"a":0}}})");
  expect_error(ExitCode::kData, {"hf.json", "WordPiece"}, load("hf.json"));
}

TEST(LoadTokenizer, AByteTokenizerWithOneMergeMoreIsAnother) {
  const TemporaryFolder folder;
  std::string json = make_byte_tokenizer()->files()[0].second;
  const std::string merges = "\"merges\": []";
  const size_t at = json.find(merges);
  ASSERT_NE(at, std::string::npos);
  json.replace(at, merges.size(), "\"merges\": [[\"a\",\"b\"]]");
  // The merge's result is no token.
  folder.write("x", json);
  expect_error(ExitCode::kData, {"x", "\"ab\""}, [&] { load_tokenizer(folder / "x"); });
}

TEST(LoadTokenizer, ADamagedModelIsRefusedOrHarmless) {
  // Cut anywhere, or with any byte changed, a model file is refused by name or still a tokenizer;
  // nothing crashes.
  const std::string good = trained(TokenizerKind::kUnigram).files()[0].second;
  const TemporaryFolder folder;
  int refused = 0;
  const auto attempt = [&](const std::string& content) {
    const fs::path file = folder.write("m", content);
    try {
      load_tokenizer(file)->encode("the king \xC3\xA9");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
      EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
      ++refused;
    }
  };
  for (size_t size = 0; size < good.size(); size += 97) attempt(good.substr(0, size));
  EXPECT_GT(refused, 90);
  RandomStream random(3, 3);
  for (int i = 0; i < 500; ++i) {
    std::string changed = good;
    changed[random.below(changed.size())] ^= static_cast<char>(1 + random.below(255));
    attempt(changed);
  }
}

TEST(TrainSentencePiece, IsDeterministicAndKeepsItsSpecials) {
  const std::vector<std::string> texts = sample_corpus(100, 4);
  for (const TokenizerKind kind : {TokenizerKind::kUnigram, TokenizerKind::kBpe}) {
    const auto train = [&] {
      const auto documents = read_texts(texts);
      return train_sentencepiece(*documents, {.kind = kind, .vocab_size = 500});
    };
    const auto first = train();
    const auto second = train();
    EXPECT_EQ(first->identity(), second->identity());
    EXPECT_EQ(first->vocab_size(), 500);
    EXPECT_EQ(first->piece(0), "<unk>");
    EXPECT_EQ(first->piece(1), "<s>");
    EXPECT_EQ(first->piece(2), "</s>");
    // It has learned: fewer tokens than characters by far, and newlines are pieces of their own,
    // not bytes.
    EXPECT_LT(first->encode(texts[0]).size() * 2, texts[0].size());
    EXPECT_EQ(first->piece(first->encode("\n")[0]), "\n");
  }
}

TEST(TrainSentencePiece, TooLargeAVocabularyIsLowered) {
  const std::vector<std::string> texts = {"the king and the lord of the land\n"s};
  for (const TokenizerKind kind : {TokenizerKind::kUnigram, TokenizerKind::kBpe}) {
    const auto documents = read_texts(texts);
    const auto tokenizer = train_sentencepiece(*documents, {.kind = kind, .vocab_size = 8192});
    EXPECT_GT(tokenizer->vocab_size(), 259);
    EXPECT_LT(tokenizer->vocab_size(), 400);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(texts[0])), texts[0]);
  }
}

TEST(TrainSentencePiece, ImpossibleOrdersAreRefused) {
  const std::vector<std::string> texts = sample_corpus(5, 4);
  expect_error(ExitCode::kUsage, {"vocabulary of 100"}, [&] {
    const auto documents = read_texts(texts);
    train_sentencepiece(*documents, {.vocab_size = 100});
  });
  const std::vector<std::string> blank = {"", "\t\t", "\0"s};
  expect_error(ExitCode::kData, {"no text"}, [&] {
    const auto documents = read_texts(blank);
    train_sentencepiece(*documents, {.vocab_size = 300});
  });
}

TEST(TrainSentencePiece, LongLinesAndReservedCharactersLoseNothing) {
  // One line of a megabyte, with tabs between: a trainer left to itself would drop it whole.
  std::string text;
  for (const std::string& part : sample_corpus(800, 6)) {
    for (const char c : part) text += c == '\n' ? '\t' : c;
  }
  const std::vector<std::string> texts = {text};
  const auto documents = read_texts(texts);
  const auto tokenizer = train_sentencepiece(*documents, {.vocab_size = 600});
  EXPECT_EQ(tokenizer->vocab_size(), 600);
  EXPECT_LT(tokenizer->encode(text).size() * 2, text.size());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(TrainSentencePiece, MoreTextThanAllowedIsSampledByWholeDocuments) {
  const std::vector<std::string> texts = sample_corpus(400, 8);
  const auto train = [&](uint64_t max_bytes, uint64_t seed) {
    const auto documents = read_texts(texts);
    return train_sentencepiece(*documents,
                               {.vocab_size = 500, .max_bytes = max_bytes, .seed = seed})
        ->identity();
  };
  EXPECT_EQ(train(50000, 1), train(50000, 1));
  EXPECT_NE(train(50000, 1), train(50000, 2));
  EXPECT_EQ(train(1 << 30, 1), train(1 << 30, 2));
}

}  // namespace
}  // namespace athanor::data
