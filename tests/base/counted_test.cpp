#include "base/counted.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "file"), "2 files");
}

}  // namespace
}  // namespace athanor
