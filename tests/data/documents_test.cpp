#include "data/documents.h"

#include <algorithm>

#include "data/jsonl.h"
#include "testing.h"

namespace athanor::data {
namespace {

using std::string_literals::operator""s;

std::vector<Document> read_all(const fs::path& path) {
  std::vector<Document> documents;
  const DocumentFiles files(path);
  const auto reader = files.read();
  for (Document document; reader->next(document);) documents.push_back(document);
  return documents;
}

std::vector<std::string> texts_of(const fs::path& path) {
  std::vector<std::string> texts;
  for (const Document& document : read_all(path)) texts.push_back(document.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Documents, ATextFileIsOneDocumentKeptToTheByte) {
  const TemporaryFolder folder;
  EXPECT_EQ(texts_of(folder.write("a.txt", "one\r\ntwo\n\n")), Texts{"one\r\ntwo\n\n"});
  EXPECT_EQ(texts_of(folder.write("b.txt", "no newline")), Texts{"no newline"});
  EXPECT_EQ(texts_of(folder.write("c.txt", "\n")), Texts{"\n"});
  EXPECT_EQ(texts_of(folder.write("d.txt", "nul \0 inside"s)), Texts{"nul \0 inside"s});
  EXPECT_EQ(texts_of(folder.write("e.txt", "")), Texts{});
  EXPECT_EQ(texts_of(folder.write("f.txt",
                                  "\xEF\xBB\xBF"
                                  "marked")),
            Texts{"marked"});
}

TEST(Documents, SeparatorLinesCutATextFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      texts_of(folder.write("a.txt", "one\n<|endoftext|>\ntwo\nlines\n<|endoftext|>\nlast\n")),
      (Texts{"one", "two\nlines", "last"}));
  // A part without a line is no document; a part of one empty line is the empty document.
  EXPECT_EQ(texts_of(folder.write("b.txt", "<|endoftext|>\n<|endoftext|>\n\n<|endoftext|>")),
            Texts{""});
  EXPECT_EQ(texts_of(folder.write("c.txt", "a\n\n<|endoftext|>\nb")), (Texts{"a\n", "b"}));
  // Only whole lines separate.
  const std::string inside = "a <|endoftext|>\n<|endoftext|> b\n <|endoftext|>\n";
  EXPECT_EQ(texts_of(folder.write("d.txt", inside)), Texts{inside});
}

TEST(Documents, FoldersAreWalkedInByteOrderWithPlaces) {
  const TemporaryFolder folder;
  folder.write("b/z.txt", "third");
  folder.write("a.jsonl", "{\"text\": \"first\"}\n\n{\"text\": \"second\"}\n");
  folder.write("b/\xC3\xA9.txt", "fourth\n<|endoftext|>\nfifth");
  folder.write("b/.hidden.txt", "never");
  folder.write(".git/x.txt", "never");
  folder.write("README.md", "never");
  folder.write("c.parquet", "never");
  const auto documents = read_all(folder.path());
  ASSERT_EQ(documents.size(), 5u);
  const Texts expected = {"first", "second", "third", "fourth", "fifth"};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(documents[i].text, expected[i]);
  EXPECT_EQ(documents[1].where, (folder / "a.jsonl").string() + ":3");
  EXPECT_EQ(documents[4].where, (folder / "b/\xC3\xA9.txt").string() + ":3");
  EXPECT_EQ(DocumentFiles(folder.path()).ignored(), 2);
}

TEST(Documents, WhatCannotBeReadIsRefusedByName) {
  const TemporaryFolder folder;
  const auto open = [&](const fs::path& path) { return [=] { read_all(path); }; };
  expect_error(ExitCode::kData, {"nowhere", "no such"}, open(folder / "nowhere"));
  expect_error(ExitCode::kData, {folder.path().string(), "empty", ".jsonl"}, open(folder.path()));
  expect_error(ExitCode::kData, {"x.parquet", ".txt"}, open(folder.write("x.parquet", "PAR1")));
  expect_error(ExitCode::kData, {"no .txt or .jsonl", "1 files"}, open(folder.path()));
  expect_error(ExitCode::kData, {"y.jsonl.gz", ".jsonl"}, open(folder.write("y.jsonl.gz", "x")));
  expect_error(ExitCode::kData, {"bad.txt:2", "not UTF-8", "byte 4"},
               open(folder.write("bad.txt", "good\nbad\xFF\n")));
  expect_error(ExitCode::kData, {"cut.txt:1", "not UTF-8"}, open(folder.write("cut.txt", "a\xC3")));
  expect_error(ExitCode::kData, {"wide.txt:1", "UTF-16"},
               open(folder.write("wide.txt", "\xFF\xFEh\0i\0"s)));
}

TEST(Documents, JsonLinesAreCutAtNewlinesAlone) {
  const TemporaryFolder folder;
  EXPECT_EQ(texts_of(folder.write("a.jsonl",
                                  "\xEF\xBB\xBF{\"text\":\"one\"}\r\n \t\r\n"
                                  "{\"text\":\"sep \xE2\x80\xA8 inside \xC2\x85\"}\n"
                                  "{\"text\":\"last\"}")),
            (Texts{"one", "sep \xE2\x80\xA8 inside \xC2\x85", "last"}));
  const std::string line = "{\"text\":\"x\"}\n";
  const auto reads = [&](const std::string& bad) {
    return [&folder, bad, line] {
      read_all(folder.write("b.jsonl", line + "\n" + bad + "\n" + line));
    };
  };
  expect_error(ExitCode::kData, {"b.jsonl:3", "key \"text\""}, reads("{\"t\":1}"));
  expect_error(ExitCode::kData, {"b.jsonl:3", "not UTF-8"}, reads("{\"text\":\"\xC3(\"}"));
  expect_error(ExitCode::kData, {"b.jsonl:3", "not valid JSON"}, reads("{\"text\":\"x\""));
}

TEST(JsonLine, FindsTheTextOfTheTopLevel) {
  const auto text = [](std::string_view line) {
    std::string found;
    const std::string wrong = text_of_json_line(line, found);
    return wrong.empty() ? found : "refused: " + wrong;
  };
  EXPECT_EQ(text(R"({"text":"a"})"), "a");
  EXPECT_EQ(text(R"({"meta":{"text":"no"},"l":[{"text":"no"}],"te\u0078t":"yes"})"), "yes");
  EXPECT_EQ(text(R"({"n":1,"n":2,"a":{"text":"b"},"text":"once"})"), "once");
  for (const char* doubled : {R"({"text":"first","text":"last"})", R"({"text":5,"text":"last"})",
                              R"({"text":"a","x":[],"te\u0078t":"a"})"}) {
    EXPECT_NE(text(doubled).find("twice"), std::string::npos) << doubled;
  }
  EXPECT_EQ(text(R"({"text":"a","n":-1.5e3,"z":null,"t":true,"e":[]})"), "a");
  EXPECT_EQ(text(R"({"text":"\ud83d\ude00\u0000\/"})"), "\xF0\x9F\x98\x80\0/"s);
  for (const char* bad :
       {R"(["text"])", R"("text")", "5", "null", R"({"text":null})", R"({"text":["a"]})",
        R"({"text":{"text":"a"}})", R"({"text":"a","text":7})", R"({"text":"a"} {"text":"b"})",
        R"({"text":"\ud800"})", R"({"text":"\x41"})", R"({'text':'a'})", R"({"text":"a",})",
        "{\"text\":\"a\tb\"}", R"({"text":"a)", "", R"({"text":"a"}x)"}) {
    EXPECT_TRUE(text(bad).starts_with("refused: ")) << bad << " gave " << text(bad);
  }
}

TEST(JsonLine, NestingOfAnyDepthIsNoDanger) {
  std::string text;
  const std::string deep(200000, '[');
  EXPECT_FALSE(text_of_json_line("{\"x\":" + deep, text).empty());
  EXPECT_EQ(
      text_of_json_line("{\"x\":" + deep + std::string(200000, ']') + ",\"text\":\"t\"}", text),
      "");
  EXPECT_EQ(text, "t");
}

TEST(Documents, LongLinesCrossBuffers) {
  const TemporaryFolder folder;
  std::string big;
  for (int i = 0; i < 300000; ++i) big += "word \xC3\xA9 ";
  EXPECT_EQ(texts_of(folder.write("a.jsonl", "{\"text\":\"" + big + "\"}\n{\"text\":\"end\"}\n")),
            (Texts{big, "end"}));
  EXPECT_EQ(texts_of(folder.write("b.txt", big + "\n<|endoftext|>\n" + big)), (Texts{big, big}));
}

}  // namespace
}  // namespace athanor::data
