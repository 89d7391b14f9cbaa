// athanor generate, through the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

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

TEST_P(GenerateGolden, ABatchOfThemEqualsTheReference) {
  const auto folder = golden_folder(GetParam());
  if (!folder) GTEST_SKIP() << golden_absent(GetParam());
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Values& generated = vectors.at("generated_ids");
  const Values& prompts = vectors.at("prompt_ids");
  const ScratchFolder scratch;
  std::string lines;
  std::string expected;
  for (int64_t b = 0; b < generated.shape[0]; ++b) {
    const auto row = [b](const Values& values) {
      const auto begin = values.integers.begin() + b * values.shape[1];
      return join(std::vector<int64_t>(begin, begin + values.shape[1]));
    };
    lines += "{\"ids\":[" + row(prompts) + "]}\n";
    expected += "[" + row(generated) + "]\n";
  }
  const Outcome outcome =
      athanor({"generate", folder->string(), "--jsonl", scratch.write("p.jsonl", lines).string(),
               "--max-tokens", std::to_string(generated.shape[1]), "--temperature", "0",
               "--ignore-eos", "--precision", "fp32"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::string mine;
  std::istringstream read(outcome.out);
  for (std::string line; std::getline(read, line);) {
    mine += nlohmann::json::parse(line).at("ids").dump() + "\n";
  }
  EXPECT_EQ(mine, expected);
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
  with_json.emplace_back("--json");
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
  expect_refusal(with({"--prompt", "a", "--stop", ""}), 2, "--stop");
  expect_refusal(with({"--prompt", "a", "--ids", "1"}), 2, "--ids");
  expect_refusal(with({"--prompt", "a", "--jsonl", "x"}), 2, "--jsonl");
  expect_refusal(with({"--prompt", "a", "--system", "b"}), 2, "--chat");
  expect_refusal(with({"--prompt", "a", "--chat"}), 3, "no chat template");
  expect_refusal(with({"--jsonl", (folder / "absent").string()}), 3, "absent");
  expect_refusal(with({"--prompt-file", (folder / "absent").string()}), 3, "absent");
  const auto file = [&](std::string_view text) {
    return with({"--prompt-file", folder.write("prompt.txt", text).string()});
  };
  expect_refusal(file(""), 3, "prompt.txt: the prompt is empty");
  expect_refusal(file("ab\xff"), 3, "prompt.txt: the text is not UTF-8 at byte 2");
  expect_refusal(file(std::string(64, 'a')), 2, "a prompt of 64 tokens");
  expect_refusal(with({}), 2, "--prompt");
  expect_refusal(with({"--prompt", "a", "--max-tokens", "64"}), 2, "context of 64");
  expect_refusal(with({"--prompt", "a", "--max-tokens", "0"}), 2, "--max-tokens");
}

TEST(GenerateVerb, TakesAPromptFromAFileAndEndsAtStopStrings) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::vector<std::string> options = {"--max-tokens", "40", "--ignore-eos", "--json"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"generate", model});
    command.insert(command.end(), options.begin(), options.end());
    return athanor(command);
  };
  const Outcome plain = with({"--prompt", "Hel\nlo\n"});
  EXPECT_EQ(with({"--prompt-file", folder.write("p.txt", "Hel\nlo\n").string()}).out, plain.out);
  const std::string text = result_of(plain).at("text");
  ASSERT_GT(text.size(), 10u);
  size_t cut = 6;  // not inside a character
  while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
  size_t end = cut + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(cut, end - cut);
  const std::string shown = text.substr(0, text.find(stop));
  const Outcome stopped =
      with({"--prompt", "Hel\nlo\n", "--stop", "never to come", "--stop", stop});
  EXPECT_EQ(result_of(stopped).at("finish_reason"), "stop");
  EXPECT_EQ(result_of(stopped).at("text"), shown);
  EXPECT_TRUE(stopped.out.starts_with(shown + "\n{"));
}

TEST(GenerateVerb, ContinuesManyPromptsFromLines) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::string file =
      folder.write("p.jsonl", "{\"prompt\": \"a\", \"n\": 1}\n{\"ids\": [98]}\n").string();
  const std::vector<std::string> options = {"--max-tokens", "9", "--seed", "4"};
  std::vector<std::string> command = {"generate", model, "--jsonl", file};
  command.insert(command.end(), options.begin(), options.end());
  const Outcome outcome = athanor(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out), 2);
  const auto first = nlohmann::json::parse(outcome.out.substr(0, outcome.out.find('\n')));
  EXPECT_EQ(first.at("n"), 1);
  const Outcome alone =
      athanor({"generate", model, "--prompt", "a", "--max-tokens", "9", "--seed", "4", "--json"});
  EXPECT_EQ(first.at("ids"), result_of(alone).at("ids"));
  EXPECT_EQ(nlohmann::json::parse(last_line(outcome.out)).at("prompt_tokens"), 1);
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
