// Many prompts from a .jsonl file, and conversations.
#include "infer/prompt_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "infer/chat.h"
#include "infer/completion.h"
#include "infer/text_writer.h"
#include "infer/tiny_model.h"
#include "support/golden.h"

namespace athanor::infer {
namespace {

using nlohmann::json;
using test::ScratchFolder;
using test::text_config;
using test::write_model;

std::vector<json> run(const PromptLinesRequest& request) {
  std::vector<json> lines;
  complete_lines(request, [&](std::string_view line) {
    EXPECT_TRUE(line.ends_with('\n'));
    lines.push_back(json::parse(line));
  });
  return lines;
}

Completion alone(const CompletionRequest& request) {
  return complete(request, [](std::string_view) {});
}

TEST(PromptLines, EachIsWhatItIsAloneWithItsSeed) {
  const ScratchFolder folder;
  PromptLinesRequest request;
  request.model = write_model(folder / "model", text_config(), {.bos = true});
  request.jsonl =
      folder.write("p.jsonl", R"({"prompt": "one", "id": 17, "meta": {"b": [1, null], "a": 2.5}})"
                              "\n\n"
                              R"({"ids": [1, 2, 3], "max_tokens": 3})"
                              "\n"
                              R"({"prompt": "", "seed": 99})"
                              "\n"
                              R"({"prompt": "one"})");
  request.writing.max_tokens = 20;
  request.writing.sampling.seed = 40;
  request.writing.stop = {"e", "\n"};
  const std::vector<json> lines = run(request);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].at("id"), 17);
  EXPECT_EQ(lines[0].at("meta"), (json{{"b", {1, nullptr}}, {"a", 2.5}}));
  EXPECT_FALSE(lines[0].contains("prompt"));

  CompletionRequest single;
  single.model = request.model;
  single.writing = request.writing;
  const auto expect_same = [&](const json& line, uint64_t seed) {
    single.writing.sampling.seed = seed;
    const Completion completion = alone(single);
    EXPECT_EQ(line.at("ids"), completion.ids);
    EXPECT_EQ(line.at("text"), *completion.text);
    EXPECT_EQ(line.at("finish_reason"), completion.finish_reason);
    EXPECT_EQ(line.at("prompt_tokens"), completion.prompt_tokens);
  };
  single.prompt = "one";
  expect_same(lines[0], 40);
  expect_same(lines[3], 43);
  EXPECT_NE(lines[0].at("ids"), lines[3].at("ids")) << "equal prompts draw with seeds of their own";
  single.prompt = "";
  expect_same(lines[2], 99);
  single.prompt.reset();
  single.ids = "1,2,3";
  single.writing.max_tokens = 3;
  expect_same(lines[1], 41);
}

TEST(PromptLines, GoThroughManyMoreThanAreSideBySide) {
  const ScratchFolder folder;
  PromptLinesRequest request;
  request.model = write_model(folder / "model", text_config());
  std::string text;
  for (int i = 0; i < 150; ++i) {
    text += fmt::format("{{\"prompt\": \"{}\", \"n\": {}, \"max_tokens\": {}}}\n",
                        std::string(1 + i % 7, 'a'), i, 1 + i % 5);
  }
  request.jsonl = folder.write("p.jsonl", text);
  request.writing.ignore_eos = true;
  request.writing.sampling.temperature = 0;
  const std::vector<json> lines = run(request);
  ASSERT_EQ(lines.size(), 150u);
  for (int i = 0; i < 150; ++i) {
    EXPECT_EQ(lines[i].at("n"), i) << "in the order of the file";
    EXPECT_EQ(lines[i].at("ids").size(), 1u + i % 5);
    EXPECT_EQ(lines[i].at("ids"), lines[i % 35].at("ids"));
  }
}

TEST(PromptLines, BadLinesAreRefusedWithTheirPlaceBeforeAnyWork) {
  const ScratchFolder folder;
  PromptLinesRequest request;
  request.model = write_model(folder / "model", text_config());
  const auto refused = [&](const std::string& line, const std::string& part) {
    request.jsonl = folder.write("p.jsonl", "{\"prompt\": \"a\"}\n" + line + "\n");
    int emitted = 0;
    try {
      complete_lines(request, [&](std::string_view) { ++emitted; });
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      const std::string what = error.what();
      EXPECT_NE(what.find("p.jsonl:2: "), std::string::npos) << what;
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
    EXPECT_EQ(emitted, 0);
  };
  refused("{\"prompt\": \"a\"", "not valid JSON");
  refused("[]", "a JSON object is wanted");
  refused("{}", "one of \"prompt\" and \"ids\"");
  refused(R"({"prompt": "a", "ids": [1]})", "one of \"prompt\" and \"ids\"");
  refused(R"({"prompt": 7})", "\"prompt\" is number");
  refused(R"({"prompt": "a", "prompt": "b"})", "occurs twice");
  refused(R"({"prompt": "a", "x": {"y": 1, "y": 2}})", "\"y\" occurs twice");
  refused(R"({"prompt": ""})", "prompt is empty");
  refused(R"({"ids": []})", "\"ids\"");
  refused(R"({"ids": [1, 258]})", "258, which is outside the model's vocabulary");
  refused(R"({"ids": [1, -1]})", "\"ids\"");
  refused(R"({"prompt": "a", "max_tokens": 0})", "at least 1");
  refused(R"({"prompt": "a", "max_tokens": 64})", "context of 64");
  refused(R"({"prompt": "a", "max_tokens": "4"})", "\"max_tokens\"");
  refused(R"({"prompt": "a", "seed": 1.5})", "\"seed\"");
  refused(R"({"prompt": "a", "text": "b"})", "\"text\" is one that the result has");
  refused(R"({"messages": [{"role": "user", "content": "a"}]})", "one of \"prompt\" and \"ids\"");
  refused("{\"prompt\": \"\xff\"}", "not UTF-8 at byte");
  refused("{\"prompt\": \"a\", \"x\": " + std::string(100000, '[') + "}", "nested deeper");
  request.jsonl = folder.write("p.jsonl", "\n");
  EXPECT_THROW(complete_lines(request, [](std::string_view) {}), Error) << "no prompt at all";
}

constexpr const char* kTemplate =
    "{% for m in messages %}{{'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// A random chat model: its tokenizer knows <|im_start|> and <|im_end|>. The first `ends` ids are EOS too.
fs::path chat_model(const ScratchFolder& folder, uint64_t seed, int64_t ends = 0) {
  const fs::path golden = *test::golden_folder("tokenizers_sample/qwen-like");
  model::ModelConfig config = text_config();
  config.vocab = 2509;
  config.max_positions = 4096;
  config.eos = -1;
  config.bos = -1;
  for (int64_t id = 0; id < ends; ++id) config.further_eos.push_back(id);
  const fs::path model = write_model(folder / "chat", config, {.seed = seed, .tokenizer = false});
  folder.write("chat/tokenizer.json", read_file(golden / "tokenizer.json"));
  folder.write("chat/tokenizer_config.json", json{{"chat_template", kTemplate}}.dump());
  return model;
}

TEST(PromptLines, ChatTakesMessagesOrAUsersTurn) {
  const ScratchFolder folder;
  PromptLinesRequest request;
  request.model = chat_model(folder, 1);
  request.chat = true;
  request.system = "S";
  request.writing.max_tokens = 5;
  request.writing.sampling.temperature = 0;
  request.jsonl = folder.write(
      "p.jsonl",
      R"({"prompt": "U"})"
      "\n"
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]})");
  std::vector<json> lines = run(request);
  EXPECT_EQ(lines[0], lines[1]);
  CompletionRequest single;
  single.model = request.model;
  single.writing = request.writing;
  single.prompt =
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(lines[0].at("ids"), alone(single).ids);
  single.prompt = "U";
  EXPECT_NE(lines[0].at("prompt_tokens"), alone(single).prompt_tokens);
  single.chat = true;
  single.system = "S";
  EXPECT_EQ(lines[0].at("ids"), alone(single).ids);

  for (const char* line :
       {R"({"ids": [1]})", R"({"messages": []})",
        R"({"messages": [{"role": "tool", "content": "a"}]})",
        R"({"messages": [{"role": "user"}]})",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "a"}]})",
        R"({"messages": [{"role": "user", "content": [1]}]})"}) {
    request.jsonl = folder.write("p.jsonl", line);
    EXPECT_THROW(run(request), Error) << line;
  }
}

TEST(Chat, AnAnswerEndsWithTheTurn) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = chat_model(folder, 2);
  request.chat = true;
  request.prompt = "Hello";
  request.writing.max_tokens = 3000;
  const Completion completion = alone(request);
  EXPECT_EQ(completion.finish_reason, "eos");
  EXPECT_EQ(completion.ids.back(), 2502) << "<|im_end|>";
  EXPECT_EQ(completion.text->find("<|im_end|>"), std::string::npos);
}

TEST(Chat, GoesOnFromWhatItHasRead) {
  const ScratchFolder folder;
  const fs::path model = chat_model(folder, 3, 100);
  const auto tokenizer = data::load_tokenizer(model);
  const ModelFiles files = open_model_files(model);
  WritingOptions writing;
  writing.max_tokens = 600;  // three turns pass the first reserve of tokens
  writing.sampling.seed = 5;
  Chat chat(model, "S", writing);

  // The same with everything read afresh for each turn.
  std::vector<int32_t> ids = tokenizer->encode("<|im_start|>system\nS<|im_end|>\n");
  std::string between;
  for (const std::string question : {"one", "two", "three", "four"}) {
    const std::vector<int32_t> asked = tokenizer->encode(between + "<|im_start|>user\n" + question +
                                                         "<|im_end|>\n<|im_start|>assistant\n");
    ids.insert(ids.end(), asked.begin(), asked.end());
    Prompt prompt = make_prompt(files, ids, writing, std::nullopt);
    std::vector<std::string> stop;
    stop_at_turn_end(files, prompt.options, stop);
    Session session(files, writing.precision, longest_text({&prompt, 1}),
                    generation_work({&prompt, 1}, 1));
    TextWriter writer(tokenizer.get(), prompt.options, stop);
    struct : GenerationSink {
      TextWriter* writer = nullptr;
      bool token(size_t, int32_t token) override { return writer->push(token), true; }
      void end(size_t, Ending) override { writer->finish(); }
    } sink;
    sink.writer = &writer;
    generate(session, {&prompt, 1}, 1, sink);
    ASSERT_LT(writer.ids().size(), 600u) << "the model ends its answers";

    std::string shown;
    const int64_t before = chat.tokens_read();
    const std::string answer = chat.answer(question, [&](std::string_view p) { shown += p; });
    EXPECT_EQ(answer, *writer.text());
    EXPECT_EQ(shown, answer);
    if (!between.empty()) {
      EXPECT_EQ(chat.tokens_read() - before,
                static_cast<int64_t>(asked.size() + writer.ids().size() - 1));
    }
    ids.insert(ids.end(), writer.ids().begin(), writer.ids().end() - 1);
    between = "<|im_end|>\n";
    ++writing.sampling.seed;
  }
}

TEST(Chat, WhatIsCutShortIsReadAgain) {
  const ScratchFolder folder;
  WritingOptions writing;
  writing.max_tokens = 700;
  writing.ignore_eos = true;
  Chat chat(chat_model(folder, 4), std::nullopt, writing);
  const auto ignore = [](std::string_view) {};
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_FALSE(chat.answer("more", ignore).empty());
  }
  try {  // 4096 positions
    for (int turn = 0; turn < 5; ++turn) chat.answer("more", ignore);
    FAIL() << "the context is endless";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("context of 4096"), std::string::npos);
  }
}

TEST(Chat, AModelWithoutATemplateIsRefused) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = write_model(folder / "model", text_config());
  request.prompt = "a";
  request.chat = true;
  try {
    alone(request);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("no chat template"), std::string::npos);
  }
  EXPECT_THROW(Chat(request.model, std::nullopt, {}), Error);
}

}  // namespace
}  // namespace athanor::infer
