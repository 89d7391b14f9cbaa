// tokenizer.json files of others, against Hugging Face's own library: golden/tokenizers.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"
#include "golden_lines.h"
#include "support/golden.h"
#include "testing.h"

namespace athanor::data {
namespace {

/// Compares every case of a file of texts; how many there were.
int compare_cases(const Tokenizer& tokenizer, const fs::path& file) {
  int compared = 0;
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> all;
  for (const auto& line : lines_of(file)) {
    const std::string where = file.string() + " " + line["id"].dump() + " " + line["tag"].dump();
    texts.push_back(line["text"]);
    all.push_back(line["ids"]);
    const auto with_special = line["ids_special"].get<std::vector<int32_t>>();
    std::vector<int32_t> ids = tokenizer.encode(texts.back());
    EXPECT_EQ(ids, all.back()) << where;
    tokenizer.add_special(ids);
    EXPECT_EQ(ids, with_special) << where;
    EXPECT_EQ(tokenizer.decode(all.back(), false), line["decoded"].get<std::string>()) << where;
    EXPECT_EQ(tokenizer.decode(with_special, true), line["decoded_skip_special"].get<std::string>())
        << where;
    ++compared;
  }
  EXPECT_EQ(encode_all(tokenizer, texts, Threads(3)), all) << file;
  return compared;
}

/// Compares every case of a file of id sequences; how many there were.
int compare_decoding(const Tokenizer& tokenizer, const fs::path& file) {
  int compared = 0;
  for (const auto& line : lines_of(file)) {
    const auto ids = line["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids, false), line["decoded"].get<std::string>())
        << file << " " << line["id"];
    EXPECT_EQ(tokenizer.decode(ids, true), line["decoded_skip_special"].get<std::string>())
        << file << " " << line["id"];
    ++compared;
  }
  return compared;
}

class GoldenTokenizerJson : public testing::TestWithParam<const char*> {
 protected:
  /// Skips where the golden folder is not.
  void compare(const std::string& set, int least_cases, int least_sequences) {
    const std::string name = set + "/" + GetParam();
    const auto folder = test::golden_folder(name);
    if (!folder) GTEST_SKIP() << test::golden_absent(name);
    const auto tokenizer = load_tokenizer(*folder);
    EXPECT_GE(compare_cases(*tokenizer, *folder / "cases.jsonl"), least_cases);
    EXPECT_GE(compare_decoding(*tokenizer, *folder / "decode.jsonl"), least_sequences);
  }
};
class GoldenTokenizerJsonSample : public GoldenTokenizerJson {};

TEST_P(GoldenTokenizerJson, EncodesAndDecodesAsHuggingFaceDoes) { compare("tokenizers", 200, 80); }
TEST_P(GoldenTokenizerJsonSample, EncodesAndDecodesAsHuggingFaceDoes) {
  compare("tokenizers_sample", 50, 20);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTokenizerJson,
                         testing::Values("bytelevel-gpt2", "bytelevel-llama3", "qwen-like",
                                         "metaspace-llama2", "metaspace-first"));
INSTANTIATE_TEST_SUITE_P(Files, GoldenTokenizerJsonSample,
                         testing::Values("bytelevel-gpt2", "qwen-like", "metaspace-llama2"));

TEST(GoldenGemma3, EncodesAndDecodesAsHuggingFaceDoes) {
  const auto folder = test::golden_folder("tokenizers");
  if (!folder) GTEST_SKIP() << test::golden_absent("tokenizers");
  const fs::path packed = *folder / "../../data/gemma3-tokenizer.json.xz";
  const TemporaryFolder unpacked;
  const fs::path file = unpacked / "gemma.json";
  const std::string command =
      "xz -dc '" + packed.string() + "' > '" + file.string() + "' 2>/dev/null";
  if (!fs::exists(packed) || std::system(command.c_str()) != 0) {
    GTEST_SKIP() << "no " << packed << ", or no xz to unpack it";
  }
  const auto tokenizer = load_tokenizer(file);
  EXPECT_EQ(tokenizer->vocab_size(), 262145);
  EXPECT_EQ(tokenizer->special().bos, 2);
  EXPECT_EQ(tokenizer->special().eos, 1);
  EXPECT_GE(compare_cases(*tokenizer, *folder / "gemma3.jsonl"), 420);
  EXPECT_GE(compare_decoding(*tokenizer, *folder / "gemma3-decode.jsonl"), 120);
}

}  // namespace
}  // namespace athanor::data
