#include "comm/lab.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"

namespace athanor::comm::test {
namespace {

bool on_path(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

std::vector<Mpi> find_mpis() {
  // As root, more ranks than cores, and unbound: what a container on a laptop needs.
  const std::vector<Mpi> known = {
      {"openmpi",
       {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}},
      {"mpich", {"mpirun.mpich"}}};
  std::vector<Mpi> found;
  for (const Mpi& mpi : known) {
    const fs::path module = fs::path(ATHANOR_MODULES) / ("athanor_mpi_" + mpi.name + ".so");
    if (on_path(mpi.launcher.front()) && fs::exists(module)) {
      found.push_back(mpi);
    } else {
      std::fprintf(stderr,
                   "RANKS UNDER %s NOT TRIED: it is not installed (packages.txt, [ranks])\n",
                   mpi.name.c_str());
    }
  }
  return found;
}

std::string content_of(const fs::path& path) {
  return fs::exists(path) ? read_file(path) : std::string();
}

}  // namespace

const std::vector<Mpi>& available_mpis() {
  static const std::vector<Mpi> found = find_mpis();
  return found;
}

Command::Command(const std::vector<std::string>& words,
                 const std::vector<std::string>& environment) {
  std::vector<std::string> entries = environment;
  // Under the address sanitizer: MPI's libraries keep memory to the end, in modules that are unloaded when leaks are looked
  // for, and tests end ranks by the very signals that it would turn into an exit code.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  entries.push_back(std::string("ASAN_OPTIONS=") + (sanitizer == nullptr ? "" : sanitizer) +
                    ":detect_leaks=0:handle_segv=0:handle_abort=0");
  std::vector<std::string> arguments = words;
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out_file = (folder_ / "out").string();
  const std::string err_file = (folder_ / "err").string();
  pid_ = fork();
  if (pid_ == 0) {
    // Until exec nothing that a lock of the parent's threads could hold.
    setsid();
    const int in = ::open("/dev/null", O_RDONLY);
    const int out = ::open(out_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    const int err = ::open(err_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (std::string& entry : entries) putenv(entry.data());
    execvp(argv[0], argv.data());
    _exit(127);
  }
}

Command::~Command() {
  if (!ended_) wait(std::chrono::seconds(0));
  kill(-pid_, SIGKILL);  // what its children left in the session's group
}

bool Command::running() {
  int status = 0;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return !ended_;
}

int Command::wait(std::chrono::seconds limit) {
  if (!eventually([&] { return !running(); }, limit)) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    ended_ = true;
  }
  return code_;
}

std::string Command::out() const { return content_of(folder_ / "out"); }
std::string Command::err() const { return content_of(folder_ / "err"); }

std::vector<std::string> launch_words(const Mpi& mpi, int ranks,
                                      const std::vector<std::string>& arguments) {
  std::vector<std::string> words = mpi.launcher;
  words.emplace_back("-n");
  words.push_back(std::to_string(ranks));
  words.emplace_back(ATHANOR_RANK_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace athanor::comm::test
