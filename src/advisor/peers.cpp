#include "advisor/peers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"

namespace athanor::advisor {
namespace {

constexpr const char* kProgram = "athanor-bench-peers";

fs::path beside_this_program() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path() / kProgram;
}

/// A pair of connected sockets: one for us, one that becomes the child's stdin and stdout. Unlike a
/// pipe, writing to one whose reader is gone need not raise a signal.
void connect(int (&ends)[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw system_error(errno, "connect", kProgram, ExitCode::kPeer);
  }
}

}  // namespace

PeerProcess::PeerProcess() {
  const fs::path program = beside_this_program();
  if (!fs::exists(program)) {
    throw usage_error(
        fmt::format("--peers: {} is not there; it is built where oneDNN is found (apt install "
                    "libdnnl-dev, then "
                    "build again)",
                    program.string()));
  }
  int ends[2];
  connect(ends);
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const std::string path = program.string();
  std::string name = kProgram;
  char* const arguments[] = {name.data(), nullptr};
  const int fault = posix_spawn(&child_, path.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (fault != 0) {
    close(socket_);
    throw system_error(fault, "start", path, ExitCode::kPeer);
  }
  try {
    name_ = read_line();
  } catch (...) {
    stop();
    throw;
  }
}

PeerProcess::~PeerProcess() { stop(); }

void PeerProcess::stop() {
  close(socket_);  // the end of its input, after which it ends
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

double PeerProcess::product_seconds(const PeerProduct& product) {
  const std::string request =
      fmt::format("{} {} {} {} {}\n", product.outer ? "outer" : "linear",
                  product.dtype == DType::kBF16 ? "bf16" : "fp32", product.t, product.n, product.k);
  const ssize_t sent = send(socket_, request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) {
    throw Error(ExitCode::kPeer, fmt::format("{} ended before its time", kProgram));
  }
  const std::string answer = read_line();
  const double seconds = std::strtod(answer.c_str(), nullptr);
  if (!(seconds > 0)) {
    throw Error(ExitCode::kPeer, fmt::format("{} answered '{}'", kProgram, answer));
  }
  return seconds;
}

std::string PeerProcess::read_line() {
  std::string line;
  char next = 0;
  while (true) {
    const ssize_t n = read(socket_, &next, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(ExitCode::kPeer, fmt::format("{} ended before its time", kProgram));
    if (next == '\n') return line;
    line += next;
  }
}

}  // namespace athanor::advisor
