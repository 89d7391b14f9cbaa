// Chat templates: what transformers writes for the same messages, and what is refused.
#include "data/chat_template.h"

#include <gtest/gtest.h>

#include "data/golden_lines.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::data {
namespace {

using test::ScratchFolder;

std::vector<ChatMessage> messages_of(const nlohmann::json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& one : list) messages.push_back({one.at("role"), one.at("content")});
  return messages;
}

std::vector<nlohmann::json> golden_cases() {
  return lines_of(fs::path(ATHANOR_SOURCE_DIR) / "tests/data/golden/chat_templates.jsonl");
}

jinja::Map names_of(const nlohmann::json& golden) {
  jinja::List messages;
  for (const ChatMessage& message : messages_of(golden.at("messages"))) {
    messages.push_back(jinja::Map{{"role", message.role}, {"content", message.content}});
  }
  return {{"messages", messages},          {"tools", jinja::None{}}, {"documents", jinja::None{}},
          {"add_generation_prompt", true}, {"bos_token", "<s>"},     {"eos_token", "</s>"}};
}

TEST(Jinja, WritesWhatTransformersWritesOrRefuses) {
  int same = 0;
  std::vector<std::string> refused;
  for (const nlohmann::json& golden : golden_cases()) {
    const std::string source = golden.at("template");
    try {
      const std::string text = jinja::Template(source).render(names_of(golden));
      ASSERT_TRUE(golden.at("text").is_string()) << source << " gave " << text;
      EXPECT_EQ(text, golden.at("text")) << source;
      ++same;
    } catch (const std::invalid_argument& error) {
      EXPECT_STRNE(error.what(), "");
      if (golden.at("text").is_string()) refused.push_back(source);
    }
  }
  EXPECT_EQ(same, 56);
  // What is known to be beyond this part of Jinja; nothing else may be.
  EXPECT_EQ(refused.size(), 18u) << testing::PrintToString(refused);
}

TEST(Jinja, DoesNotFollowTemplatesThatNeverEnd) {
  std::string loops = "{% set x = ['a', 'b'] %}";
  for (int i = 0; i < 60; ++i) loops += "{% for a in x %}";
  loops += "{{ 'y' }}";
  for (int i = 0; i < 60; ++i) loops += "{% endfor %}";
  std::string doubled = "{% set x = 'aaaaaaaa' %}{% set l = [1, 2] %}";
  for (int i = 0; i < 60; ++i) doubled += "{% set x = x + x %}";
  std::string lists = "{% set l = [1, 2] %}";
  for (int i = 0; i < 60; ++i) lists += "{% set l = l + l %}";
  const std::string deep =
      "{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}";
  std::string choices = "1";
  for (int i = 0; i < 90; ++i) choices = "(" + choices + " if true else 2)";
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if true %}";
  for (int i = 0; i < 100000; ++i) blocks += "{% endif %}";
  for (const std::string& source : {loops, doubled, lists, deep, blocks}) {
    EXPECT_THROW(jinja::Template(source).render({}), std::invalid_argument);
  }
  EXPECT_EQ(jinja::Template("{{ " + choices + " }}").render({}), "1");
}

/// A tokenizer's folder with this template.
struct Folder {
  ScratchFolder scratch;
  std::unique_ptr<Tokenizer> tokenizer;
  explicit Folder(const nlohmann::json& chat_template, const std::string& file = "") {
    const fs::path golden = *test::golden_folder("tokenizers_sample/qwen-like");
    scratch.write("tokenizer.json", read_file(golden / "tokenizer.json"));
    const nlohmann::json config = {{"chat_template", chat_template}};
    scratch.write("tokenizer_config.json", config.dump());
    if (!file.empty()) scratch.write("chat_template.jinja", file);
    tokenizer = load_tokenizer(scratch.path());
  }
  ChatTemplate read() const { return {scratch.path(), *tokenizer}; }
  std::string why_not() const {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "";
  }
};

TEST(ChatTemplate, RendersConversationsAsTransformersDoes) {
  int seen = 0;
  for (const nlohmann::json& golden : golden_cases()) {
    if (golden.at("name") == "jinja" || golden.at("name") == "lines") continue;
    const Folder folder(golden.at("template"));
    EXPECT_EQ(folder.read().render(messages_of(golden.at("messages"))), golden.at("text"));
    const Folder file("{{ nothing( }}", golden.at("template"));
    EXPECT_EQ(file.read().render(messages_of(golden.at("messages"))), golden.at("text"))
        << "the file goes before the config";
    ++seen;
  }
  EXPECT_EQ(seen, 12);
}

constexpr const char* kPlain =
    "{% for m in messages %}{{'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

TEST(ChatTemplate, IsTheDefaultOfSeveral) {
  const nlohmann::json tools = {{"name", "tool_use"}, {"template", "{{ tools }}"}};
  const nlohmann::json plain = {{"name", "default"}, {"template", kPlain}};
  const Folder folder(nlohmann::json::array({tools, plain}));
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  EXPECT_EQ(folder.read().render(messages),
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_NE(Folder(nlohmann::json::array({tools})).why_not().find("no chat template"),
            std::string::npos);
}

TEST(ChatTemplate, WhatIsNotChatMlOrCannotBeFollowedIsRefusedWithItsPlace) {
  const auto refused = [](const nlohmann::json& chat_template, const std::string& part) {
    const std::string why = Folder(chat_template).why_not();
    EXPECT_NE(why.find(part), std::string::npos) << why;
    EXPECT_NE(why.find("tokenizer_config.json"), std::string::npos) << why;
  };
  refused(nullptr, "no chat template");
  refused(7, "no chat template");
  refused("{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endfor %}",
          "is not ChatML");
  refused(std::string(kPlain) + "{{ strftime_now('%d') }}", "the function strftime_now");
  refused("{% for m in messages %}", "without an end");
  refused("{{ 'a", "without an end");

  std::string skipping = kPlain;
  skipping.replace(skipping.find("{{'<|im"), 0, "{% if m.role != 'system' %}");
  skipping.replace(skipping.find("{% endfor"), 0, "{% endif %}");
  const Folder folder(skipping);
  const std::vector<ChatMessage> messages = {{"system", "be brief"}, {"user", "x"}};
  try {
    folder.read().render(messages);
    FAIL() << "the system's turn is lost";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("leaves the system's turn out"), std::string::npos);
  }
}

}  // namespace
}  // namespace athanor::data
