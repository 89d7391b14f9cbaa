#include "base/new_directories.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch.h"

namespace athanor {
namespace {

TEST(NewDirectories, GoAgainWhileEmptyAndTheirParentsWithThem) {
  const test::ScratchFolder folder;
  fs::create_directory(folder / "old");
  {
    const NewDirectories made(folder / "old/a/b/");
    EXPECT_TRUE(fs::is_directory(folder / "old/a/b"));
  }
  EXPECT_FALSE(fs::exists(folder / "old/a"));
  EXPECT_TRUE(fs::is_directory(folder / "old")) << "it was there before";
}

TEST(NewDirectories, StayOnceSomethingLiesInThem) {
  const test::ScratchFolder folder;
  {
    const NewDirectories made(folder / "a/b");
    std::ofstream(folder / "a/kept") << "x";
  }
  EXPECT_FALSE(fs::exists(folder / "a/b"));
  EXPECT_TRUE(fs::exists(folder / "a/kept"));
  {
    const NewDirectories again(folder / "a");
  }
  EXPECT_TRUE(fs::exists(folder / "a/kept"));
}

TEST(NewDirectories, AFileInTheWayIsAnError) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "file") << "x";
  test::expect_error(ExitCode::kUsage, {"file"},
                     [&] { const NewDirectories made(folder / "file/a"); });
  EXPECT_TRUE(fs::exists(folder / "file"));
}

}  // namespace
}  // namespace athanor
