// That what was written is there after a crash: which fsync goes before and after which rename.
#include <gtest/gtest.h>

#include "support/file_calls.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

TEST(Durability, AFileWrittenAtomicallyIsWholeBeforeItHasItsNameAndThenKeepsIt) {
  const ScratchFolder folder;
  const FileCalls calls;
  write_file_atomically(folder / "config.toml", "seed = 1\n");
  const size_t named = calls.rename_to(folder / "config.toml");
  ASSERT_LT(named, calls.all().size()) << calls.text();
  EXPECT_TRUE(calls.synced(calls.all()[named].path, 0, named)) << calls.text();
  EXPECT_TRUE(calls.synced(folder.path(), named, calls.all().size())) << calls.text();
  EXPECT_EQ(read_file(folder / "config.toml"), "seed = 1\n");
}

TEST(Durability, NewFoldersKeepTheirNames) {
  const ScratchFolder folder;
  const FileCalls calls;
  make_directories(folder / "runs/first");
  EXPECT_TRUE(calls.synced(folder.path(), 0, calls.all().size())) << calls.text();
  EXPECT_TRUE(calls.synced(folder / "runs", 0, calls.all().size())) << calls.text();
}

TEST(Durability, AMoveIsKeptInBothFolders) {
  const ScratchFolder folder;
  write_file_atomically(folder / "f", "content");
  make_directories(folder / "aside");
  const FileCalls calls;
  rename_file(folder / "f", folder / "aside/f");
  const size_t moved = calls.rename_to(folder / "aside/f");
  ASSERT_LT(moved, calls.all().size()) << calls.text();
  EXPECT_TRUE(calls.synced(folder.path(), moved, calls.all().size())) << calls.text();
  EXPECT_TRUE(calls.synced(folder / "aside", moved, calls.all().size())) << calls.text();
}

TEST(Durability, ALogIsSyncedWhenAsked) {
  const ScratchFolder folder;
  LineLog log(folder / "metrics.jsonl");
  const FileCalls calls;
  log.append("{}");
  EXPECT_TRUE(calls.all().empty()) << "a line alone waits for no disk: " << calls.text();
  log.sync();
  EXPECT_TRUE(calls.synced(folder / "metrics.jsonl", 0, calls.all().size())) << calls.text();
}

}  // namespace
}  // namespace athanor::test
