#include "base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/error.h"

namespace athanor {
namespace {

TEST(Memory, SizesForAPerson) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(17 << 10), "17 KiB");
  EXPECT_EQ(size_text(1000 << 10), "1.0 MiB");
  EXPECT_EQ(size_text((uint64_t{16} << 30) / 5), "3.2 GiB");
  EXPECT_EQ(size_text(~uint64_t{0}), "16 EiB");
}

TEST(Memory, AvailableIsSomethingAndNoMoreThanTheMachineHas) {
  const auto all =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(available_memory(), uint64_t{1} << 20);
  EXPECT_LE(available_memory(), all);
}

TEST(Memory, MoreThanThereIsIsRefusedWithBothFigures) {
  EXPECT_NO_THROW(require_memory("a step", 1 << 20));
  try {
    require_memory("training this model", uint64_t{1} << 60);
    FAIL() << "an exbibyte was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kResources);
    const std::string message = error.what();
    EXPECT_EQ(message.find("training this model needs 1.0 EiB of memory, "), 0U) << message;
    EXPECT_NE(message.find("iB are free"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace athanor
