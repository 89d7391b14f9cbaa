#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log_file.h"
#include "support/scratch.h"

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

/// to_file() holds for the rest of a process: each case has its own. What `said` writes to stderr, and the file's lines without
/// their time.
std::pair<std::string, std::vector<std::string>> logged(const fs::path& path, bool terminal,
                                                        const std::function<void()>& said) {
  const athanor::test::ScratchFolder folder;
  const fs::path captured = folder / "stderr";
  const pid_t child = fork();
  if (child == 0) {
    const int fd = ::open(captured.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(fd, STDERR_FILENO);
    to_file(path, terminal);
    said();
    std::fflush(stderr);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  std::vector<std::string> lines;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);) {
    EXPECT_EQ(line.find('T'), 10u) << line;
    EXPECT_EQ(line.find("Z "), 19u) << line;
    lines.push_back(line.substr(std::min<size_t>(line.size(), 21)));
  }
  return {read_file(captured), lines};
}

TEST(LogFile, RankThatIsMuteOnTheTerminalWritesItsFile) {
  const athanor::test::ScratchFolder folder;
  const fs::path path = folder / "logs" / "rank-00003.log";
  const auto said = [] {
    warning("slow");
    note("going on");
    Progress progress("train", "steps", 10);
    progress.update(10, "loss 3.21");
    progress.finish();
  };
  const std::vector<std::string> once = {"warning: slow", "info: going on",
                                         "train 100 %  10/10 steps  loss 3.21  in 0s"};
  EXPECT_EQ(logged(path, false, said), std::pair(std::string(), once));
  // A run that goes on writes behind what is there.
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(logged(path, true, said),
            std::pair(std::string("warning: slow\ninfo: going on\n"
                                  "train 100 %  10/10 steps  loss 3.21  in 0s\n"),
                      twice));
}

TEST(LogFile, FullDiskEndsTheLogAndNotTheRun) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "FULL DISK NOT TRIED: no /dev/full";
  const athanor::test::ScratchFolder folder;
  fs::create_symlink("/dev/full", folder / "rank-00001.log");
  testing::internal::CaptureStderr();
  const pid_t child = fork();
  if (child == 0) {
    to_file(folder / "rank-00001.log", false);
    note("one");
    note("two");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const std::string err = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_NE(err.find("no more is logged to a file"), std::string::npos) << err;
}

}  // namespace
}  // namespace athanor::log
