#include "train/signals.h"

#include <atomic>
#include <csignal>

namespace athanor::train {
namespace {

/// Set by a handler, or by the thread in which a worker hears its parent (comm/worker.h).
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  int none = 0;
  received.compare_exchange_strong(none, number);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  received = 0;
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  struct sigaction before{};
  hangup_ = sigaction(SIGHUP, nullptr, &before) != 0 || before.sa_handler != SIG_IGN;
  if (hangup_) std::signal(SIGHUP, on_signal);
}

StopSignals::~StopSignals() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  if (hangup_) std::signal(SIGHUP, SIG_DFL);
}

bool StopSignals::requested() const { return received != 0; }

std::string StopSignals::name() const {
  if (received == SIGHUP) return "SIGHUP";
  return received == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace athanor::train
