#include "support/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace athanor::test {
namespace {

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void redirect(int from, const char* path, int flags) {
  const int fd = ::open(path, flags, 0600);
  if (fd < 0 || dup2(fd, from) < 0) _exit(127);
}

void set_stdout(Sink sink, const std::string& captured) {
  switch (sink) {
    case Sink::kCaptured:
      redirect(STDOUT_FILENO, captured.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      break;
    case Sink::kFullDisk:
      redirect(STDOUT_FILENO, "/dev/full", O_WRONLY);
      break;
    case Sink::kClosed:
      ::close(STDOUT_FILENO);
      break;
    case Sink::kClosedPipe: {
      int ends[2];
      if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(127);
      ::close(ends[0]);
      ::close(ends[1]);
      break;
    }
  }
}

}  // namespace

Outcome athanor(const std::vector<std::string>& arguments, Sink sink,
                const std::vector<std::string>& environment) {
  const std::string stem = testing::TempDir() + "athanor-run." + std::to_string(getpid());
  const std::string out = stem + ".out", err = stem + ".err";
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
    redirect(STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    set_stdout(sink, out);
    std::vector<char*> argv = {const_cast<char*>(ATHANOR_BINARY)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(ATHANOR_BINARY, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Outcome outcome;
  outcome.peak_bytes = int64_t{usage.ru_maxrss} * 1024;  // Linux counts it in KiB
  outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (sink == Sink::kCaptured) outcome.out = content_of(out);
  outcome.err = content_of(err);
  unlink(out.c_str());
  unlink(err.c_str());
  return outcome;
}

int lines_of(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

void expect_refusal(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("athanor: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << " lacks: " << part;
}

}  // namespace athanor::test
