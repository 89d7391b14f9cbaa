// athanor data, through the program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "infer/tiny_model.h"
#include "support/program.h"

namespace athanor::test {
namespace {

using nlohmann::json;

class DataVerb : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::string model_ = write_model(folder_ / "model", text_config());
  std::string packed_ = folder_ / "packed";

  Outcome pack(const std::string& data, const std::vector<std::string>& options = {}) {
    std::vector<std::string> command = {"data", "pack",  data,   "--tokenizer",
                                        model_, "--out", packed_};
    command.insert(command.end(), options.begin(), options.end());
    return athanor(command);
  }
};

TEST_F(DataVerb, PacksInspectsAndVerifies) {
  const std::string data =
      folder_.write("d.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"d\"}\n{\"text\": \"\"}\n");
  const Outcome packed = pack(data, {"--bos", "--json"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  const json index = json::parse(packed.out);
  const Outcome inspected = athanor({"data", "inspect", packed_, "--json"});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_EQ(json::parse(inspected.out), index);
  const Outcome text = athanor({"data", "inspect", packed_});
  EXPECT_NE(text.out.find("3 documents, 10 tokens, 4 bytes of text"), std::string::npos)
      << text.out;
  const Outcome verified = athanor({"data", "verify", packed_});
  EXPECT_EQ(verified.code, 0) << verified.err;
}

TEST_F(DataVerb, OneFlippedByteAnywhereIsFound) {
  ASSERT_EQ(pack(folder_.write("d.txt", "some text that is packed")).code, 0);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(packed_)) {
    if (!entry.path().filename().string().starts_with("shard-")) continue;
    ++files;
    const std::string whole = read_file(entry.path());
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 23) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1);
      write_file_atomically(entry.path(), flipped);
      expect_refusal(athanor({"data", "verify", packed_}), 3, entry.path().filename().string());
    }
    write_file_atomically(entry.path(), whole.substr(0, whole.size() - 1));
    expect_refusal(athanor({"data", "verify", packed_}), 3, entry.path().filename().string());
    write_file_atomically(entry.path(), whole);
  }
  EXPECT_GE(files, 1);
  EXPECT_EQ(athanor({"data", "verify", packed_}).code, 0);
}

TEST_F(DataVerb, BadInputIsRefusedAndLeavesNoPack) {
  fs::create_directories(folder_ / "empty");
  expect_refusal(pack(folder_ / "empty"), 3, "empty");
  expect_refusal(pack(folder_ / "absent"), 3, "absent");
  expect_refusal(pack(folder_.write("bad.txt", "good\nbad \xff\n")), 3, "bad.txt:2");
  expect_refusal(pack(folder_.write("zero.txt", "")), 3, "zero.txt: there is no text");
  folder_.write("empty/zero.txt", "");
  expect_refusal(pack(folder_ / "empty"), 3, "empty: there is no text");
  expect_refusal(pack(folder_.write("twice.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n")), 3,
                 "twice.jsonl:1: ");
  EXPECT_FALSE(fs::exists(packed_)) << "a folder was left behind";
  expect_refusal(pack(folder_.write("d.txt", "text"), {"--heldout", "0.7"}), 2, "at most 0.5");
  expect_refusal(pack(folder_ / "d.txt", {"--shard-tokens", "0"}), 2, "--shard-tokens");
  EXPECT_FALSE(fs::exists(fs::path(packed_) / "index.json"));
  expect_refusal(athanor({"data", "inspect", packed_}), 3, "packed");
  expect_refusal(athanor({"data", "verify", folder_.path().string()}), 3, "");
}

TEST_F(DataVerb, HoldsOutWholeDocuments) {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += "{\"text\": \"document number " + std::to_string(i) + "\"}\n";
  const Outcome packed = pack(folder_.write("d.jsonl", lines), {"--heldout", "0.1", "--seed", "4"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_NE(packed.out.find("held out"), std::string::npos);
  const int held_out = lines_of(read_file(fs::path(packed_) / "heldout.jsonl"));
  EXPECT_GE(held_out, 14);
  EXPECT_LE(held_out, 26);
}

}  // namespace
}  // namespace athanor::test
