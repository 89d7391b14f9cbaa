// That a crash while a pack replaces another leaves no folder that passes for a pack and is none.
#include <algorithm>

#include "data/pack.h"
#include "data/split.h"
#include "support/file_calls.h"
#include "testing.h"

namespace athanor::data {
namespace {

using test::FileCall;
using test::FileCalls;

void pack_texts(const std::vector<std::string>& texts, const fs::path& out) {
  const auto documents = read_texts(texts);
  pack(*documents, *make_byte_tokenizer(), {.held_out = {false, true, false}}, out, Threads(1));
}

TEST(Durability, ShardsAreOnTheDiskBeforeTheIndexThatListsThem) {
  const TemporaryFolder folder;
  const fs::path index = folder / "index.json";
  pack_texts({"one", "two", "three"}, folder.path());
  const FileCalls calls;
  pack_texts({"four", "five", "six"}, folder.path());
  const size_t listed = calls.rename_to(index);
  ASSERT_LT(listed, calls.all().size()) << calls.text();
  EXPECT_FALSE(calls.all()[listed].replaces)
      << "the old index stood beside new shards: " << calls.text();
  const size_t unlisted = calls.sync_of(folder.path());  // the old index is gone for good
  size_t moved = 0;
  for (size_t i = 0; i < listed; ++i) {
    const FileCall& call = calls.all()[i];
    if (call.kind != FileCall::Kind::kRename) continue;
    ++moved;
    EXPECT_LT(unlisted, i) << call.to << " in\n" << calls.text();
    EXPECT_TRUE(calls.synced(call.path, 0, i)) << call.path << " in\n" << calls.text();
    EXPECT_TRUE(calls.synced(folder.path(), i, listed)) << call.to << " in\n" << calls.text();
  }
  EXPECT_EQ(moved, 5u) << "two shards, the tokenizer's two files, heldout.jsonl\n" << calls.text();
  EXPECT_TRUE(calls.synced(folder.path(), listed, calls.all().size())) << calls.text();
}

TEST(Durability, HeldOutTextIsWholeBeforeItHasItsName) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"one", "two"};
  const auto documents = read_texts(texts);
  const FileCalls calls;
  write_jsonl(*documents, folder / "heldout.jsonl");
  const size_t named = calls.rename_to(folder / "heldout.jsonl");
  ASSERT_LT(named, calls.all().size()) << calls.text();
  EXPECT_TRUE(calls.synced(calls.all()[named].path, 0, named)) << calls.text();
  EXPECT_TRUE(calls.synced(folder.path(), named, calls.all().size())) << calls.text();
}

}  // namespace
}  // namespace athanor::data
