// SIGTERM, SIGINT and SIGHUP end a run in order.
#pragma once

#include <string>

namespace athanor::train {

/// While it lives the first SIGTERM, SIGINT or SIGHUP is a request, seen by requested(). A second SIGTERM or SIGINT ends the
/// process at once, as if nothing had been installed; a second SIGHUP does not, since a terminal that closes may send two.
/// SIGHUP stays ignored where it was (nohup). One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const;
  /// "SIGTERM", "SIGINT" or "SIGHUP", once requested.
  std::string name() const;

 private:
  bool hangup_;  ///< SIGHUP is ours
};

}  // namespace athanor::train
