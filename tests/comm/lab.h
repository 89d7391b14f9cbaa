// Launches tests/comm/rank_program as real ranks: under both MPIs' launchers, or none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/scratch.h"

namespace athanor::comm::test {

/// The launcher of an MPI with its module, as tests call it.
struct Mpi {
  std::string name;                   ///< "openmpi" or "mpich"
  std::vector<std::string> launcher;  ///< words before "-n N"
};

/// Every MPI that is here with launcher and module. Those that lack are said on stderr, once.
const std::vector<Mpi>& available_mpis();
constexpr const char* kNoMpi = "RANKS NOT TRIED: no MPI (packages.txt, [ranks])";

/// A command in a session of its own, its output in files. What is left of it at the end is killed.
class Command {
 public:
  explicit Command(const std::vector<std::string>& words,
                   const std::vector<std::string>& environment = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  /// The exit code, or 128 + the signal that ended it; −1 (and everything killed) when it has not ended after `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60));
  bool running();
  std::string out() const;
  std::string err() const;
  /// stdout and stderr, for a failed expectation.
  std::string said() const { return "stdout:\n" + out() + "stderr:\n" + err(); }

 private:
  athanor::test::ScratchFolder folder_;
  pid_t pid_ = -1;
  int code_ = -1;
  bool ended_ = false;
};

/// Words that launch `ranks` of rank_program with `arguments` under an MPI.
std::vector<std::string> launch_words(const Mpi& mpi, int ranks,
                                      const std::vector<std::string>& arguments);

/// Polls until `ready` or the limit, a generous one; false at the limit.
template <class Ready>
bool eventually(Ready ready, std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    struct timespec pause = {0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace athanor::comm::test
