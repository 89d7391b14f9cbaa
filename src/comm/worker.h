// The worker's side of a launched rank: its pulse, its peers' parents, and what it tells its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/launcher.h"
#include "comm/message.h"
#include "comm/pulse.h"

namespace athanor::comm {

/// One a process, made by its first use, early in main(). In a world of one it has a pulse that nobody looks at, and the rest
/// does nothing.
///
/// A worker takes SIGTERM, SIGINT, SIGHUP and SIGUSR1 from its parent alone: launchers send them to one, to both or to all
/// processes of a job, and each must count once. They are blocked; when the parent passes one on, a thread of the worker's runs
/// the handler that is installed for it, or lets the signal have its default effect.
class Worker {
 public:
  static Worker& self();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Launch& launch() const { return launch_; }
  /// True when a parent stands by this process.
  bool has_parent() const { return socket_.valid(); }
  Pulse& pulse() { return *pulse_; }

  /// Connects the parents of all ranks, told of each other through `communicator`, divides the cores of each host among its
  /// ranks (base/thread_limit.h) and warns, on rank 0, of hosts with more threads than cores. Once, before anything that may
  /// fail on one rank alone; all ranks call it. kPeer when parents do not find each other.
  void meet(Communicator& communicator);
  /// The name of every rank's host, once they have met: ranks of one name share a node.
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// comm.silence_limit, for the parent.
  void set_silence_limit(double seconds);
  /// Tells the parent why this process is about to end with `code`. True when the parent will say so if it is to be said: once
  /// for all ranks. False in a world of one.
  bool tell_failure(ExitCode code, const std::string& message);

 private:
  Worker();
  void adopt(const char* variable);
  void listen();
  static void take_signal(int number);
  /// Gives the parent a message whole; false when there is none.
  bool tell(MessageKind kind, std::string_view body);
  void divide_cores(const std::vector<std::string>& shares, int rank);

  Launch launch_;
  std::unique_ptr<Pulse> pulse_;
  std::vector<std::string> hosts_;
  FileDescriptor socket_;  ///< to the parent; none in a world of one
  Channel out_;            ///< the same, for telling
  std::mutex mutex_;       ///< of what the listening thread leaves:
  std::condition_variable news_;
  std::string address_;  ///< where the parent listens
  bool met_ = false;
};

}  // namespace athanor::comm
