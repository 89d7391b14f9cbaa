// SIGTERM and SIGINT end a run in order.
#pragma once

#include <string>

namespace athanor::train {

/// While it lives the first SIGTERM or SIGINT is a request, seen by requested(); the second ends the process at once, as if
/// nothing had been installed. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const;
  /// "SIGTERM" or "SIGINT", once requested.
  std::string name() const;
};

}  // namespace athanor::train
