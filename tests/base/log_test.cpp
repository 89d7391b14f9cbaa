#include "base/log.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

namespace athanor::log {
namespace {

TEST(Log, DurationsForAPerson) {
  EXPECT_EQ(duration_text(0), "0s");
  EXPECT_EQ(duration_text(-3), "0s");
  EXPECT_EQ(duration_text(59.4), "59s");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(65), "1m 05s");
  EXPECT_EQ(duration_text(3599.7), "1h 00m");
  EXPECT_EQ(duration_text(3661), "1h 01m");
  EXPECT_EQ(duration_text(90000), "1d 01h");
  EXPECT_FALSE(duration_text(std::numeric_limits<double>::infinity()).empty());
}

TEST(Log, WarningsAndNotesAreOneLineOnStderr) {
  testing::internal::CaptureStderr();
  warning("the disk {} is nearly full");  // braces are text here
  note("done");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: the disk {} is nearly full\ninfo: done\n");
}

TEST(Log, ProgressWithoutATerminalIsALineAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    Progress progress("train", "steps", 10);
    for (int i = 1; i <= 10; ++i) progress.update(i, "loss 3.21");
    progress.finish();
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "train 100 %  10/10 steps  loss 3.21  in 0s\n");
}

TEST(Log, ProgressCountsWhatWasDoneBefore) {
  testing::internal::CaptureStderr();
  {
    Progress progress("train", "steps", 10, 6);
    progress.update(8);
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "train  80 %  8/10 steps  in 0s\n");
}

TEST(Log, ProgressOfUnknownLengthShowsNoShare) {
  testing::internal::CaptureStderr();
  {
    Progress progress("pack", "documents", 0);
    progress.update(7);
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "pack  7 documents  in 0s\n");
}

/// What this program, run again with `filter` and `variable` set, writes to a terminal of 40
/// columns.
std::string on_a_terminal(const char* filter, const char* variable) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 40;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv(variable, "1", 1);
    execl("/proc/self/exe", "test", filter, static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string output;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(terminal, buffer, sizeof buffer)) > 0;) {
    output.append(buffer, static_cast<size_t>(n));
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << output;
  return output;
}

TEST(Log, ATerminalGetsABarThatFitsItsWidth) {
  if (std::getenv("ATHANOR_TEST_ON_TERMINAL") !=
      nullptr) {  // the second run, whose stderr is the terminal
    Progress progress("train", "steps", 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.update(1, "a detail that is longer than what is left of the line");
    warning("slow disk");
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.update(2);
    return;
  }
  const std::string output = on_a_terminal("--gtest_filter=Log.ATerminalGetsABarThatFitsItsWidth",
                                           "ATHANOR_TEST_ON_TERMINAL");
  const std::string clear = "\r\033[K";
  const size_t first = output.find(clear + "train ━━━━━━──────────────────  25 %");
  ASSERT_NE(first, std::string::npos) << output;
  // The bar is cut to 39 columns and wiped before the warning, which stands on a line of its own.
  const size_t wiped = output.find(clear, first + 1);
  ASSERT_NE(wiped, std::string::npos);
  int columns = 0;
  for (const char c : output.substr(first + clear.size(), wiped - first - clear.size())) {
    columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  }
  EXPECT_EQ(columns, 39);
  EXPECT_EQ(output.substr(wiped, clear.size() + 18), clear + "warning: slow disk");
  EXPECT_NE(output.find("train ━━━━━━━━━━━━────────────  50 %", wiped), std::string::npos)
      << output;
}

TEST(Log, VerboseTopicsAreWholeWords) {
  if (std::getenv("ATHANOR_TEST_VERBOSE") != nullptr) {
    setenv("ATHANOR_VERBOSE", "memory,kernels", 1);
    EXPECT_TRUE(verbose("kernels"));
    EXPECT_TRUE(verbose("memory"));
    EXPECT_FALSE(verbose("kernel"));
    EXPECT_FALSE(verbose("memory,"));
    return;
  }
  on_a_terminal("--gtest_filter=Log.VerboseTopicsAreWholeWords", "ATHANOR_TEST_VERBOSE");
}

}  // namespace
}  // namespace athanor::log
