// athanor generate, through the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "infer/tiny_model.h"
#include "support/golden.h"
#include "support/program.h"

namespace athanor::test {
namespace {

std::string join(const std::vector<int64_t>& ids) {
  std::string text;
  for (const int64_t id : ids) {
    if (!text.empty()) text += ",";
    text += std::to_string(id);
  }
  return text;
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_of('\n');
  const size_t begin = text.find_last_of('\n', end - 1);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin - 1);
}

nlohmann::json result_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(last_line(outcome.out));
}

class GenerateGolden : public testing::TestWithParam<const char*> {};

TEST_P(GenerateGolden, GreedyDecodingEqualsTheReference) {
  const auto folder = golden_folder(GetParam());
  if (!folder) GTEST_SKIP() << golden_absent(GetParam());
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Values& generated = vectors.at("generated_ids");
  const Values& prompts = vectors.at("prompt_ids");
  const auto row = [](const Values& values, int64_t b) {
    const auto begin = values.integers.begin() + b * values.shape[1];
    return std::vector<int64_t>(begin, begin + values.shape[1]);
  };
  for (int64_t b = 0; b < generated.shape[0]; ++b) {
    const std::vector<int64_t> expected = row(generated, b);
    const Outcome outcome =
        athanor({"generate", folder->string(), "--ids", join(row(prompts, b)), "--max-tokens",
                 std::to_string(expected.size()), "--temperature", "0", "--ignore-eos",
                 "--precision", "fp32", "--json"});
    const nlohmann::json result = result_of(outcome);
    EXPECT_EQ(result.at("ids").get<std::vector<int64_t>>(), expected);
    EXPECT_TRUE(result.at("text").is_null());
    EXPECT_EQ(outcome.out.substr(0, outcome.out.find('\n')), join(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GenerateGolden, testing::Values("decode", "decode_sliding"));

TEST(GenerateVerb, StreamsTextAndEndsWithAnObject) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::vector<std::string> command = {
      "generate", model, "--prompt", "Hello", "--max-tokens", "20", "--ignore-eos", "--seed", "3"};
  const Outcome plain = athanor(command);
  EXPECT_EQ(plain.code, 0) << plain.err;
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const Outcome outcome = athanor(with_json);
  const nlohmann::json result = result_of(outcome);
  EXPECT_EQ(result.at("ids").size(), 20u);
  EXPECT_EQ(result.at("prompt_tokens"), 5);
  EXPECT_EQ(result.at("finish_reason"), "length");
  EXPECT_EQ(plain.out, result.at("text").get<std::string>() + "\n");
  EXPECT_TRUE(outcome.out.starts_with(plain.out));
  EXPECT_EQ(athanor(with_json).out, outcome.out) << "equal seeds";
  with_json[8] = "4";
  EXPECT_NE(athanor(with_json).out, outcome.out) << "another seed";
}

TEST(GenerateVerb, RefusesPromptsOutsideTheVocabularyOrTheContext) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const auto with = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), {"generate", model});
    return athanor(rest);
  };
  expect_refusal(with({"--ids", "1,258"}), 2, "token 258 is outside");
  expect_refusal(with({"--ids=-1"}), 2, "token -1 is outside");
  expect_refusal(with({"--ids", "1,two"}), 2, "'two' is not a token id");
  expect_refusal(with({"--ids", ""}), 2, "token id");
  expect_refusal(with({"--prompt", ""}), 2, "prompt is empty");
  expect_refusal(with({"--prompt", "\xff\xfe"}), 2, "--prompt");
  expect_refusal(with({}), 2, "--prompt");
  expect_refusal(with({"--prompt", "a", "--max-tokens", "64"}), 2, "context of 64");
  expect_refusal(with({"--prompt", "a", "--max-tokens", "0"}), 2, "--max-tokens");
}

TEST(GenerateVerb, DamagedModelsAreRefused) {
  const ScratchFolder folder;
  const auto refused = [&](const fs::path& model, const std::string& part) {
    expect_refusal(athanor({"generate", model.string(), "--ids", "1"}), 3, part);
  };
  refused(folder / "absent", "absent");
  refused(folder.path(), "config.json");

  const fs::path model = write_model(folder / "model", text_config());
  const std::string weights = read_file(model / "model.safetensors");
  write_file_atomically(model / "model.safetensors", weights.substr(0, weights.size() - 100));
  refused(model, "model.safetensors");
  write_file_atomically(model / "model.safetensors", "");
  refused(model, "model.safetensors");
  std::string lying = weights;
  lying[0] = static_cast<char>(0xff);
  lying[6] = static_cast<char>(0xff);
  write_file_atomically(model / "model.safetensors", lying);
  refused(model, "model.safetensors");
  fs::remove(model / "model.safetensors");
  refused(model, "model.safetensors");

  write_model(model, text_config());
  write_file_atomically(model / "tokenizer_config.json", "{\"add_bos_token\": 1}");
  refused(model, "add_bos_token");
  write_model(model, text_config());
  model::ModelConfig small = text_config();
  small.vocab = 257;
  small.eos = -1;
  refused(write_model(folder / "small", small), "vocabulary");
}

TEST(GenerateVerb, AReaderThatLeavesEndsItQuietly) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::vector<std::string> command = {"generate", model, "--prompt", "Hello", "--ignore-eos"};
  const Outcome pipe = athanor(command, Sink::kClosedPipe);
  EXPECT_EQ(pipe.code, 128 + 13);
  EXPECT_EQ(pipe.err, "");
  const Outcome full = athanor(command, Sink::kFullDisk);
  EXPECT_EQ(full.code, 6);
  EXPECT_EQ(lines_of(full.err), 1) << full.err;
}

}  // namespace
}  // namespace athanor::test
