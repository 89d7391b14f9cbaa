#include "train/signals.h"

#include <csignal>

namespace athanor::train {
namespace {

volatile std::sig_atomic_t received = 0;

void on_signal(int number) {
  if (received == 0) received = number;
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
