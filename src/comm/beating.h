// A pulse for work that has none of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "comm/communicator.h"

namespace athanor::comm {

/// Beats twice a second as long as it lives: for what one rank does alone and may take long, such as packing text or writing a
/// checkpoint, while the others wait. A process that is stopped is still found; work that leads nowhere is not, while this
/// stands for it. In a world of one nobody listens, and nothing is started.
class Beating {
 public:
  explicit Beating(Communicator& communicator);
  ~Beating();
  Beating(const Beating&) = delete;
  Beating& operator=(const Beating&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace athanor::comm
