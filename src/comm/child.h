// The process that a parent starts as its worker.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "comm/launcher.h"
#include "comm/pulse.h"

namespace athanor::comm {

/// How a worker ended.
struct ChildEnd {
  int code = 0;
  int signal = 0;         ///< that killed it; 0: it ended by itself
  bool expected = false;  ///< the signal is one that was passed on to it
  std::string note;       ///< what the kernel may have had to do with it
};

/// Starts this program again, with this process's arguments. From then on SIGTERM, SIGINT, SIGHUP (unless ignored), SIGUSR1 and
/// SIGCHLD are blocked here and come from signals(); the worker starts with them blocked, too (comm/worker.h). It is killed
/// when this process ends.
class Child {
 public:
  explicit Child(const Launch& launch);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// This side of the socket to it.
  FileDescriptor take_socket() { return std::move(socket_); }
  const Pulse& pulse() const { return *pulse_; }
  /// Readable when a signal has come.
  int signals() const { return signals_.get(); }
  /// Those to pass on that have come since the last call.
  std::vector<int> taken_signals();
  /// A death by this signal is then no surprise.
  void expect_end_by(int signal) { expected_.push_back(signal); }

  /// How it ended, told once; nothing while it lives, and nothing after kill().
  std::optional<ChildEnd> reap();
  bool alive() const { return alive_; }
  /// Stopped by a signal, as far as reap() saw.
  bool stopped() const { return stopped_; }
  /// Ends it for the sake of others.
  void kill();
  /// Waits for its end, so that its memory and files are given back before this process ends; not for ever, since the kernel
  /// may hold it fast.
  void await_end();
  /// Who started this process is gone.
  bool launcher_lost() const;

 private:
  FileDescriptor socket_, signals_;
  std::unique_ptr<Pulse> pulse_;
  pid_t pid_ = -1;
  pid_t launcher_;
  bool alive_ = false;
  bool stopped_ = false;
  bool killed_ = false;
  std::vector<int> expected_;
  long out_of_memory_kills_;
};

std::string own_host_name();

}  // namespace athanor::comm
