#include "comm/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "comm/parent.h"

namespace athanor::comm {
namespace {

/// The words that this process was started with.
std::vector<std::string> own_arguments() {
  const std::string bytes = read_file("/proc/self/cmdline", ExitCode::kResources);
  std::vector<std::string> words;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\0', at), bytes.size());
    words.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool ignored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// How often the kernel killed for want of memory on this host.
long out_of_memory_kills() {
  std::ifstream in("/proc/vmstat");
  std::string name;
  long value = 0;
  while (in >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

[[noreturn]] void become_worker(const std::vector<char*>& argv, pid_t parent, int socket,
                                int page) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(static_cast<int>(ExitCode::kPeer));  // it was gone before the line above
  fcntl(socket, F_SETFD, 0);
  fcntl(page, F_SETFD, 0);
  execv("/proc/self/exe", argv.data());
  _exit(static_cast<int>(ExitCode::kBug));
}

}  // namespace

std::string own_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Child::Child(const Launch& launch)
    : launcher_(getppid()), out_of_memory_kills_(out_of_memory_kills()) {
  std::vector<int> passed_on = {SIGTERM, SIGINT, SIGUSR1};
  if (!ignored(SIGHUP)) passed_on.push_back(SIGHUP);
  const sigset_t blocked = set_of(passed_on);
  passed_on.push_back(SIGCHLD);
  const sigset_t watched = set_of(passed_on);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // an ignored one would take the worker's exit code away

  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw system_error(errno, "make", "a socket to the worker", ExitCode::kResources);
  }
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  const FileDescriptor page(Pulse::new_page());
  pulse_ = std::make_unique<Pulse>(page.get());

  std::vector<std::string> words = own_arguments();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string told = fmt::format("{}:{}:{}", other.get(), page.get(), getpid());
  setenv(kWorkerVariable, told.c_str(), 1);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    throw system_error(errno, "start", fmt::format("the worker of rank {}", launch.rank),
                       ExitCode::kResources);
  }
  if (pid_ == 0) become_worker(argv, parent, other.get(), page.get());
  alive_ = true;
  unsetenv(kWorkerVariable);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signals_ = FileDescriptor(signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_.valid()) throw system_error(errno, "watch", "signals", ExitCode::kResources);
}

std::vector<int> Child::taken_signals() {
  std::vector<int> numbers;
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) numbers.push_back(static_cast<int>(info.ssi_signo));
  }
  return numbers;
}

std::optional<ChildEnd> Child::reap() {
  int status = 0;
  while (alive_ && waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid_) {
    if (WIFSTOPPED(status)) {
      stopped_ = true;
    } else if (WIFCONTINUED(status)) {
      stopped_ = false;
    } else {
      alive_ = false;
      if (killed_) return std::nullopt;
      ChildEnd end;
      if (!WIFSIGNALED(status)) {
        end.code = WEXITSTATUS(status);
        return end;
      }
      end.signal = WTERMSIG(status);
      end.expected = std::ranges::find(expected_, end.signal) != expected_.end();
      if (end.signal == SIGKILL && out_of_memory_kills() > out_of_memory_kills_) {
        end.note = "the kernel killed for want of memory on this host";
      }
      return end;
    }
  }
  return std::nullopt;
}

void Child::kill() {
  if (!alive_ || killed_) return;
  killed_ = true;
  ::kill(pid_, SIGKILL);
}

void Child::await_end() {
  for (int i = 0; i < 100 && alive_; ++i) {
    reap();
    if (alive_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool Child::launcher_lost() const { return getppid() != launcher_; }

}  // namespace athanor::comm
