// The command line's manners: help, version, what is refused, and a stdout that cannot be written.
#include <gtest/gtest.h>

#include "infer/tiny_model.h"
#include "support/program.h"

namespace athanor::test {
namespace {

const std::vector<std::vector<std::string>> kVerbs = {
    {"train"},
    {"generate"},
    {"probe"},
    {"eval", "perplexity"},
    {"tokenizer", "train"},
    {"tokenizer", "encode"},
    {"tokenizer", "decode"},
    {"tokenizer", "inspect"},
    {"data", "pack"},
    {"data", "inspect"},
    {"data", "verify"},
    {"checkpoint", "inspect"},
    {"checkpoint", "verify"},
    {"checkpoint", "export"},
    {"plan", "memory"},
    {"bench", "gemm"},
    {"bench", "memory"},
    {"bench", "step"},
    {"bench", "decode"},
};

const std::vector<std::string> kBenchMemory = {"bench", "memory"};

std::string path_of(const std::vector<std::string>& verb) {
  std::string path = "athanor";
  for (const std::string& word : verb) path += " " + word;
  return path;
}

TEST(CommandLine, EveryVerbHasHelpWithAnExample) {
  for (std::vector<std::string> verb : kVerbs) {
    const std::string path = path_of(verb);
    verb.emplace_back("--help");
    const Outcome help = athanor(verb);
    EXPECT_EQ(help.code, 0) << path;
    EXPECT_EQ(help.err, "") << path;
    EXPECT_NE(help.out.find("Usage: " + path + " "), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Example:\n  " + path + " "), std::string::npos) << help.out;
  }
}

TEST(CommandLine, TheProgramsHelpListsTheVerbs) {
  const Outcome help = athanor({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const auto& verb : kVerbs) {
    EXPECT_NE(help.out.find("\n  " + verb.front() + " "), std::string::npos) << help.out;
  }
}

TEST(CommandLine, AVerbWithoutWhatItNeedsIsRefused) {
  for (const std::vector<std::string>& verb : kVerbs) {
    if (verb.back() == "gemm" || verb == kBenchMemory) continue;  // need nothing
    expect_refusal(athanor(verb), 2, path_of(verb) + " --help");
  }
}

TEST(CommandLine, VersionNamesCommitAndKernels) {
  const Outcome version = athanor({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(lines_of(version.out), 1);
  EXPECT_TRUE(version.out.starts_with("athanor 0.")) << version.out;
  EXPECT_NE(version.out.find(", commit "), std::string::npos);
  EXPECT_NE(version.out.find(", kernels "), std::string::npos);
  EXPECT_NE(athanor({"--version"}, Sink::kCaptured, {"ATHANOR_ISA=reference"})
                .out.find("kernels reference (ATHANOR_ISA=reference, and this machine has "),
            std::string::npos);
  expect_refusal(athanor({"--version"}, Sink::kCaptured, {"ATHANOR_ISA=none"}), 2, "none");
}

TEST(CommandLine, UnknownVerbsNameTheNearest) {
  expect_refusal(athanor({"trian"}), 2, "did you mean 'train'?");
  expect_refusal(athanor({"tokenizer", "encod"}), 2, "did you mean 'encode'?");
  expect_refusal(athanor({"xyzzyx"}), 2, "generate");
  expect_refusal(athanor({}), 2, "a verb is missing");
  expect_refusal(athanor({"tokenizer"}), 2, "train, encode, decode, inspect");
}

TEST(CommandLine, VerbsOfLaterIssuesDoNotExist) {
  for (const char* verb : {"serve", "warden"}) {
    expect_refusal(athanor({verb, "--help"}), 2, "unknown verb '" + std::string(verb) + "'");
  }
  const std::vector<std::pair<std::string, std::string>> later = {
      {"eval", "task"}, {"checkpoint", "reshape"}, {"bench", "collectives"}, {"plan", "cluster"}};
  for (const auto& [group, verb] : later) {
    expect_refusal(athanor({group, verb}), 2, "unknown verb '" + verb + "'");
  }
}

TEST(CommandLine, UnknownOptionsNameTheNearest) {
  expect_refusal(athanor({"generate", "m", "--promt", "x"}), 2, "did you mean '--prompt'?");
  expect_refusal(athanor({"bench", "gemm", "--second=1"}), 2, "did you mean '--seconds'?");
  expect_refusal(athanor({"generate", "m", "n", "--prompt", "x"}), 2, "n");
  expect_refusal(athanor({"--versoin"}), 2, "did you mean '--version'?");
}

TEST(CommandLine, ValuesOfTheWrongKindAreRefused) {
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--max-tokens", "many"}), 2, "many");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--seed", "-1"}), 2, "negative");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--seed", "010"}), 2, "zero");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--seed", "99999999999999999999"}), 2,
                 "too large");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--top-k", "5x"}), 2, "whole number");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--precision", "fp16"}), 2, "fp16");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--temperature", "-1"}), 2, "temperature");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--top-p", "0"}), 2, "top-p");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--prompt", "x"}), 2, "--prompt");
  expect_refusal(athanor({"generate", "m", "--ids", "1", "--top-p", "half"}), 2, "not a number");
  expect_refusal(athanor({"bench", "gemm", "--size", "0"}), 2, "size");
  expect_refusal(athanor({"bench", "gemm", "--seconds", "nan"}), 2, "seconds");
}

TEST(CommandLine, NumbersOutOfRangeAreRefusedWithTheRange) {
  struct Case {
    std::vector<std::string> verb;
    std::string option, value, range;
  };
  const std::vector<std::string> generate = {"generate", "m", "--ids", "1"};
  const std::vector<std::string> tokenizer = {"tokenizer", "train", "t", "--out", "o"};
  const std::vector<std::string> pack = {"data", "pack", "d", "--tokenizer", "t", "--out", "o"};
  const std::vector<std::string> bench = {"bench", "gemm"};
  for (const auto& [verb, option, value, range] : std::vector<Case>{
           {{"train", "c"}, "--steps", "0", "at least 1"},
           {{"train", "c"}, "--steps", "-5", "at least 1"},
           {generate, "--max-tokens", "0", "at least 1"},
           {generate, "--temperature", "-0.1", "at least 0"},
           {generate, "--top-k", "-1", "at least 0"},
           {generate, "--top-p", "0", "more than 0 and at most 1"},
           {generate, "--top-p", "2", "more than 0 and at most 1"},
           {{"eval", "perplexity", "m", "--data", "d"}, "--context", "0", "at least 1"},
           {tokenizer, "--vocab", "0", "at least 1"},
           {tokenizer, "--max-bytes", "0", "at least 1"},
           {pack, "--heldout", "0.6", "at least 0 and at most 0.5"},
           {pack, "--shard-tokens", "0", "at least 1"},
           {bench, "--size", "0", "at least 1 and at most 32768"},
           {bench, "--seconds", "0", "more than 0"},
           {{"bench", "memory"}, "--seconds", "0", "more than 0"},
           {{"bench", "step", "c"}, "--steps", "0", "at least 1"},
           {{"bench", "decode", "m"}, "--rounds", "0", "at least 1"},
           {{"bench", "decode", "m"}, "--tokens", "0", "at least 1"}}) {
    std::vector<std::string> command = verb;
    command.push_back(option + "=" + value);
    expect_refusal(athanor(command), 2, option + ": " + value + " must be " + range);
  }
  for (const char* none : {"nan", "inf", "-inf", "1e999", ""}) {
    for (const char* option : {"--temperature", "--top-p"}) {
      std::vector<std::string> command = generate;
      command.push_back(std::string(option) + "=" + none);
      expect_refusal(athanor(command), 2, option);
    }
  }
}

TEST(CommandLine, AStdoutThatCannotBeWrittenIsNoSuccess) {
  const Outcome full = athanor({"--help"}, Sink::kFullDisk);
  EXPECT_EQ(full.code, 6);
  EXPECT_EQ(lines_of(full.err), 1) << full.err;
  const Outcome pipe = athanor({"--help"}, Sink::kClosedPipe);
  EXPECT_EQ(pipe.code, 128 + 13) << "as SIGPIPE ends a program";
  EXPECT_EQ(pipe.err, "");
}

TEST(CommandLine, EveryVerbRefusesAClosedStdoutBeforeItWorks) {
  for (const std::vector<std::string>& verb : kVerbs) {
    expect_refusal(athanor(verb, Sink::kClosed), 2, "standard output is closed");
  }
  const ScratchFolder folder;
  const fs::path out = folder / "o.model";
  expect_refusal(athanor({"tokenizer", "train", folder.write("t.txt", "a text"), "--out", out,
                          "--vocab", "300"},
                         Sink::kClosed),
                 2, "standard output is closed");
  EXPECT_FALSE(fs::exists(out));
}

TEST(CommandLine, AStdoutThatFailsOnTheWayEndsEveryVerbAlike) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const std::string text = folder.write("t.txt", "some text");
  const std::string jsonl = folder.write("t.jsonl", "{\"text\": \"a\", \"ids\": [97]}\n");
  const std::string pack = folder / "pack";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"--version"},
           {"eval", "perplexity", model, "--data", text},
           {"tokenizer", "encode", model, "--jsonl", jsonl},
           {"tokenizer", "decode", model, "--jsonl", jsonl},
           {"tokenizer", "inspect", model},
           {"data", "pack", text, "--tokenizer", model, "--out", pack},
           {"data", "inspect", pack},
           {"data", "verify", pack}}) {
    SCOPED_TRACE(command.front() + " " + command.back());
    EXPECT_EQ(athanor(command, Sink::kFullDisk).code, 6);
    const Outcome pipe = athanor(command, Sink::kClosedPipe);
    EXPECT_EQ(pipe.code, 128 + 13);
    EXPECT_EQ(pipe.err.find("athanor:"), std::string::npos) << pipe.err;
  }
}

}  // namespace
}  // namespace athanor::test
