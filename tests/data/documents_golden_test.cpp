// The text containers of golden/data/text: plain .txt and .jsonl.
#include <nlohmann/json.hpp>

#include "data/documents.h"
#include "support/golden.h"
#include "testing.h"

namespace athanor::data {
namespace {

bool is_plain(const std::string& file) {
  return file.ends_with(".txt") || file.ends_with(".jsonl");
}

std::vector<std::string> texts_of(const fs::path& path) {
  std::vector<std::string> texts;
  const auto reader = DocumentFiles(path).read();
  for (Document document; reader->next(document);) texts.push_back(document.text);
  return texts;
}

/// "an error that names the file and line 23…" → 23; 0 without a line.
std::string line_named(const std::string& expected) {
  const size_t at = expected.find("line ");
  if (at == std::string::npos) return "0";
  return std::to_string(std::atoi(expected.c_str() + at + 5));
}

TEST(GoldenText, EveryPlainFileIsReadOrRefusedAsItShould) {
  const auto folder = test::golden_folder("data/text");
  if (!folder) GTEST_SKIP() << test::golden_absent("data/text");
  const auto expected = nlohmann::json::parse(read_file(*folder / "expected.json"));
  const auto all = expected["documents"].get<std::vector<std::string>>();
  int good = 0;
  int bad = 0;
  for (const auto& [file, what] : expected["files"].items()) {
    if (!is_plain(file)) continue;
    SCOPED_TRACE(file);
    const fs::path path = *folder / file;
    if (file.starts_with("bad/")) {
      const std::string line = line_named(what["expected"]);
      std::vector<std::string> parts = {path.string() + ":" + line + ":"};
      if (file == "bad/half-last-line.jsonl") {
        // The note says 50, but the cut left 49 lines, and it is the 49th that is half.
        parts = {path.string() + ":49:"};
      }
      if (file == "bad/deep-nesting.jsonl") {
        EXPECT_EQ(texts_of(path).size(), all.size());  // valid JSON: accepted
        continue;
      }
      if (file == "bad/utf16.jsonl") parts.emplace_back("UTF-16");
      if (file == "bad/no-text-key.jsonl") parts.emplace_back("\"text\"");
      expect_error(ExitCode::kData, parts, [&] { texts_of(path); });
      ++bad;
      continue;
    }
    ++good;
    if (file.starts_with("ok/empty")) {
      EXPECT_TRUE(texts_of(path).empty());
    } else if (file == "ok/duplicate-key.jsonl") {
      expect_error(ExitCode::kData, {path.string() + ":1:", "twice"}, [&] { texts_of(path); });
    } else {
      EXPECT_EQ(texts_of(path), all);
    }
  }
  EXPECT_GE(good, 9);
  EXPECT_GE(bad, 16);
}

}  // namespace
}  // namespace athanor::data
