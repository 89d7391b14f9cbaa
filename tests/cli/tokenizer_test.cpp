// athanor tokenizer, through the program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "infer/tiny_model.h"
#include "support/golden.h"
#include "support/program.h"

namespace athanor::test {
namespace {

using nlohmann::json;

std::string jsonl(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += json{{"text", text}}.dump() + "\n";
  return lines;
}

std::vector<json> objects(const std::string& lines) {
  std::vector<json> found;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
  return found;
}

/// Some English with enough repetition for a small vocabulary.
std::string english() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "The quick brown fox number " + std::to_string(i * 37 % 101) +
            " jumps over the lazy dog, and the dog sleeps on.\n";
  }
  return text;
}

TEST(TokenizerVerb, ReadsHuggingFaceFilesAndShowsWhatTheyDo) {
  const auto golden = golden_folder("tokenizers_sample/bytelevel-gpt2");
  ASSERT_TRUE(golden.has_value());
  const ScratchFolder folder;
  const std::string copy = folder.write("any.name", read_file(*golden / "tokenizer.json")).string();
  const json shown = json::parse(
      athanor({"tokenizer", "inspect", copy, "--text", "The cat's <|endoftext|>", "--json"}).out);
  EXPECT_EQ(shown.at("vocab_size"), 2001);
  EXPECT_EQ(shown.at("merges"), "1744");
  EXPECT_EQ(shown.at("eos"), 2000);
  EXPECT_NE(shown.at("pre_tokenizer").get<std::string>().find("ByteLevel"), std::string::npos);
  EXPECT_EQ(shown.at("words"), (json{"The", " cat", "'s", " ", "<|endoftext|>"}));
  EXPECT_EQ(shown.at("ids").size(), shown.at("pieces").size());
  EXPECT_EQ(shown.at("ids").back(), 2000);
  EXPECT_NE(athanor({"tokenizer", "inspect", copy, "--text", "a"}).out.find("words\n  \"a\"\n"),
            std::string::npos);
  const std::string texts = folder.write("t.jsonl", jsonl({"The cat's", ""}));
  const auto encoded = athanor({"tokenizer", "encode", copy, "--jsonl", texts});
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  const std::string ids = folder.write("i.jsonl", encoded.out).string();
  const auto decoded = objects(athanor({"tokenizer", "decode", copy, "--jsonl", ids}).out);
  EXPECT_EQ(decoded.at(0).at("text"), "The cat's");
  expect_refusal(athanor({"tokenizer", "inspect", folder.write("bad", "{\"model\": {}}").string()}),
                 3, "bad: model.vocab is empty");
}

TEST(TokenizerVerb, TrainsEncodesAndDecodesWithoutLoss) {
  const ScratchFolder folder;
  const std::string corpus = folder.write("corpus.txt", english());
  const std::vector<std::string> texts = {"The lazy fox", "", " two  spaces ",
                                          "naïve 日本 🙂\n\ttab", "\"quotes\" and \\ backslash"};
  const std::string data = folder.write("texts.jsonl", jsonl(texts));
  for (const std::string kind : {"byte-level", "byte-fallback", "unigram"}) {
    const std::string model = folder / ("deep/" + kind);
    const Outcome trained = athanor(
        {"tokenizer", "train", corpus, "--out", model, "--kind", kind, "--vocab", "320", "--json"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const json description = json::parse(trained.out);
    EXPECT_EQ(description.at("kind"), kind == "unigram" ? "unigram" : "bpe");
    EXPECT_TRUE(fs::exists(fs::path(model) / "tokenizer.json"));
    EXPECT_TRUE(fs::exists(fs::path(model) / "tokenizer_config.json"));
    const auto inspected = json::parse(athanor({"tokenizer", "inspect", model, "--json"}).out);
    EXPECT_EQ(inspected, description);
    const int64_t vocab = description.at("vocab_size");
    EXPECT_EQ(lines_of(athanor({"tokenizer", "inspect", model, "--pieces"}).out), vocab);

    const Outcome plain = athanor({"tokenizer", "encode", model, "--jsonl", data});
    ASSERT_EQ(plain.code, 0) << plain.err;
    const auto ids = objects(plain.out);
    const auto special = objects(
        athanor({"tokenizer", "encode", model, "--jsonl", data, "--add-special-tokens"}).out);
    ASSERT_EQ(ids.size(), texts.size());
    ASSERT_EQ(special.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      // A tokenizer.json without a template adds nothing, here as in Hugging Face's library.
      const bool ends = kind == "unigram";
      std::vector<int64_t> expected;
      if (ends) expected.push_back(description.at("bos"));
      for (const json& id : ids[i].at("ids")) expected.push_back(id);
      if (ends) expected.push_back(description.at("eos"));
      EXPECT_EQ(special[i].at("ids").get<std::vector<int64_t>>(), expected);
      for (const json& id : ids[i].at("ids")) EXPECT_LT(id.get<int64_t>(), vocab);
    }
    std::string back;
    for (const json& object : special) back += object.dump() + "\n";
    const Outcome decoded = athanor({"tokenizer", "decode", model, "--jsonl",
                                     folder.write("ids.jsonl", back), "--skip-special-tokens"});
    ASSERT_EQ(decoded.code, 0) << decoded.err;
    EXPECT_EQ(decoded.out, jsonl(texts));
  }
}

TEST(TokenizerVerb, TrainingHasSpecialTokensAndADefaultKind) {
  const ScratchFolder folder;
  const std::string corpus = folder.write("corpus.txt", english());
  const std::string model = folder / "t";
  const Outcome trained =
      athanor({"tokenizer", "train", corpus, "--out", model, "--vocab", "300", "--special",
               "<|im_start|>", "--special", "<|im_end|>", "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(json::parse(trained.out).at("vocab_size"), 300);
  const json shown = json::parse(
      athanor({"tokenizer", "inspect", model, "--text", "<|im_start|>a<|im_end|>", "--json"}).out);
  EXPECT_EQ(shown.at("ids").front(), 3);
  EXPECT_EQ(shown.at("ids").back(), 4);
  EXPECT_NE(shown.at("pre_tokenizer").get<std::string>().find("ByteLevel"), std::string::npos);
  // More than the text supports: a smaller one, said aloud.
  const Outcome large =
      athanor({"tokenizer", "train", corpus, "--out", folder / "large", "--vocab", "5000"});
  EXPECT_EQ(large.code, 0);
  EXPECT_NE(large.err.find(" only, not 5000"), std::string::npos) << large.err;
}

TEST(TokenizerVerb, TrainingIsRefusedBeforeItBegins) {
  const ScratchFolder folder;
  const std::string corpus = folder.write("corpus.txt", english());
  const auto train = [&](const fs::path& out, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"tokenizer", "train", corpus, "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return athanor(arguments);
  };
  const fs::path out = folder / "t";
  expect_refusal(train(out, {"--vocab", "100"}), 2, "a vocabulary of 100 cannot be trained");
  expect_refusal(train(out, {"--special", "<|pad|>"}), 2, "'<|pad|>' is there already");
  expect_refusal(train(out, {"--kind", "unigram", "--special", "<|x|>"}), 2, "unigram");
  EXPECT_EQ(train(out, {"--kind", "wordpiece"}).code, 2);
  expect_refusal(train(folder / "tokenizer.json", {}), 2, "name a folder");
  expect_refusal(train(folder.write("file", "x"), {}), 2, "name a folder");
  expect_refusal(
      athanor({"tokenizer", "train", folder.write("none.txt", "").string(), "--out", out.string()}),
      3, "no text");
  EXPECT_FALSE(fs::exists(out));
  // A folder that cannot be made is found out before the hours of work, not after.
  const Outcome nowhere = train(folder.write("file", "x") / "t", {"--vocab", "5000"});
  expect_refusal(nowhere, 2, "Not a directory");
  expect_refusal(train(out, {"--kind", "unigram", "--vocab", "258"}), 2,
                 "256 bytes alone take 259 ids");
  expect_refusal(train(out, {"--kind", "unigram", "--vocab", "260"}), 2,
                 "special tokens, bytes and the text's characters alone take ");
  EXPECT_FALSE(fs::exists(out));
  ASSERT_EQ(train(out, {"--vocab", "300"}).code, 0);
  expect_refusal(train(out, {"--vocab", "300"}), 2, "holds a tokenizer already");
}

TEST(TokenizerVerb, ATrainingThatIsCutOffLeavesNothingThatLooksLikeATokenizer) {
  const ScratchFolder folder;
  const std::string corpus = folder.write("corpus.txt", english());
  const fs::path out = folder / "t";
  // The second file cannot be written, as when the disk is full by then.
  fs::create_directories(out / "tokenizer_config.json");
  const std::vector<std::string> train = {"tokenizer", "train",   corpus, "--out",
                                          out,         "--vocab", "300"};
  expect_refusal(athanor(train), 2, "tokenizer_config.json");
  EXPECT_FALSE(fs::exists(out / "tokenizer.json"));
  fs::remove(out / "tokenizer_config.json");
  EXPECT_EQ(athanor(train).code, 0);
}

TEST(TokenizerVerb, InspectRefusesTextThatIsNotUtf8) {
  const ScratchFolder folder;
  const std::string corpus = folder.write("corpus.txt", english());
  for (const char* kind : {"byte-level", "byte-fallback", "unigram"}) {
    const std::string out = folder / kind;
    ASSERT_EQ(
        athanor({"tokenizer", "train", corpus, "--out", out, "--vocab", "320", "--kind", kind})
            .code,
        0);
    for (const char* text : {"\xff", "ab \xc3", "\xed\xa0\x80"}) {
      expect_refusal(athanor({"tokenizer", "inspect", out, "--text", text}), 2,
                     "--text: the text is not UTF-8 at byte ");
    }
  }
}

TEST(TokenizerVerb, BytesOfAModelFolder) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::string data = folder.write("texts", jsonl({"aé"}));
  EXPECT_EQ(athanor({"tokenizer", "encode", model, "--jsonl", data, "--add-special-tokens"}).out,
            "{\"ids\":[256,97,195,169,257]}\n");
  const std::string ids =
      folder.write("ids", "{\"ids\":[256,97,195,169,257,9999]}\n\n{\"ids\": []}\n");
  EXPECT_EQ(athanor({"tokenizer", "decode", model, "--jsonl", ids}).out,
            "{\"text\":\"<s>aé</s>\"}\n{\"text\":\"\"}\n");
  EXPECT_EQ(athanor({"tokenizer", "decode", model, "--jsonl", ids, "--skip-special-tokens"}).out,
            "{\"text\":\"aé\"}\n{\"text\":\"\"}\n");
}

TEST(TokenizerVerb, BadInputNamesFileAndLine) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const auto encode = [&](const std::string& content) {
    return athanor({"tokenizer", "encode", model, "--jsonl", folder.write("t.jsonl", content)});
  };
  const auto decode = [&](const std::string& content) {
    return athanor({"tokenizer", "decode", model, "--jsonl", folder.write("i.jsonl", content)});
  };
  for (const char* bad :
       {"not json\n", "[1]\n", "{}\n", "{\"text\": 1}\n", "{\"text\": \"\xff\"}\n",
        "{\"text\": \"\\ud800\"}\n", "{\"text\": \"cut", "{\"text\": \"a\", \"text\": \"b\"}"}) {
    expect_refusal(encode(bad), 3, "t.jsonl:1: ");
  }
  for (const char* bad :
       {"not json\n", "[1]\n", "{}\n", "{\"ids\": 1}\n", "{\"ids\": [-1]}\n", "{\"ids\": [1.5]}\n",
        "{\"ids\": [\"1\"]}\n", "{\"ids\": [4294967296]}\n"}) {
    expect_refusal(decode(bad), 3, "i.jsonl:1: ");
  }
  expect_refusal(encode("{\"text\": \"a\", \"text\": \"b\"}"), 3, "\"text\" occurs twice");
  expect_refusal(decode("{\"ids\": [1], \"ids\": [2]}"), 3, "\"ids\" occurs twice");
  EXPECT_EQ(decode("{\"ids\": [97], \"x\": {\"ids\": 1, \"ids\": 2}}").out, "{\"text\":\"a\"}\n");
  expect_refusal(decode("{\"ids\": [1,]}\n"), 3, "i.jsonl:1: not valid JSON at byte 12");
  expect_refusal(encode("{\"text\" \"a\"}\n"), 3, "t.jsonl:1: not valid JSON at byte 11");
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  expect_refusal(decode("{\"ids\": [" + deep + "]}\n"), 3, "holds array");
  const Outcome third = encode("{\"text\": \"a\"}\n\n{\"text\": 3}\n");
  EXPECT_EQ(third.code, 3);
  EXPECT_NE(third.err.find("t.jsonl:3: "), std::string::npos) << third.err;
  expect_refusal(athanor({"tokenizer", "encode", model, "--jsonl", (folder / "none").string()}), 3,
                 "none");
  expect_refusal(athanor({"tokenizer", "inspect", (folder / "none").string()}), 3, "none");
  expect_refusal(athanor({"tokenizer", "inspect", folder.write("junk", "junk").string()}), 3,
                 "junk");
  expect_refusal(athanor({"tokenizer", "train", folder.write("bad.txt", "\xff").string(), "--out",
                          (folder / "m").string()}),
                 3, "UTF-8");
  EXPECT_FALSE(fs::exists(folder / "m"));
}

}  // namespace
}  // namespace athanor::test
