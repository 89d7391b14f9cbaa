#include "comm/beating.h"

#include <chrono>

namespace athanor::comm {

Beating::Beating(Communicator& communicator) {
  if (communicator.size() == 1) return;
  thread_ = std::thread([this, &pulse = communicator.pulse()] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(500), [&] { return ended_; })) {
      pulse.beat();
    }
  });
}

Beating::~Beating() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace athanor::comm
