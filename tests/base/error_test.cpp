#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace athanor {
namespace {

TEST(Error, TheExitCodesNeverChange) {
  EXPECT_EQ(static_cast<int>(ExitCode::kDone), 0);
  EXPECT_EQ(static_cast<int>(usage_error("x").code()), 2);
  EXPECT_EQ(static_cast<int>(data_error("x").code()), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kPeer), 4);
  EXPECT_EQ(static_cast<int>(numbers_error("x").code()), 5);
  EXPECT_EQ(static_cast<int>(resource_error("x").code()), 6);
  EXPECT_EQ(static_cast<int>(ExitCode::kStopped), 7);
  EXPECT_EQ(static_cast<int>(bug("x").code()), 70);
}

TEST(Error, RequireThrowsABugWithItsWords) {
  EXPECT_NO_THROW(require(true, "fine"));
  try {
    require(false, "rows match");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBug);
    EXPECT_STREQ(error.what(), "rows match");
  }
}

TEST(SystemError, FullDisksAndMemoryAreResourcesWhateverTheCaller) {
  for (const int number : {ENOSPC, EDQUOT, EFBIG, ENOMEM}) {
    EXPECT_EQ(system_error(number, "write", "a", ExitCode::kUsage).code(), ExitCode::kResources)
        << number;
  }
  for (const int number : {EACCES, ENOENT, EISDIR, EIO, EROFS}) {
    EXPECT_EQ(system_error(number, "write", "a", ExitCode::kData).code(), ExitCode::kData)
        << number;
  }
}

TEST(SystemError, SaysWhatAndWhere) {
  EXPECT_STREQ(system_error(ENOENT, "read", "a/b.txt", ExitCode::kData).what(),
               "read a/b.txt: No such file or directory");
  EXPECT_STREQ(system_error(ENOSPC, "write", "c", ExitCode::kData).what(),
               "write c: No space left on device; free some space and run again");
}

}  // namespace
}  // namespace athanor
