// Who has been silent for too long: what a parent remembers of every rank's pulse.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/judgement.h"
#include "comm/pulse.h"

namespace athanor::comm {

/// A worker's pulse as it travels.
struct Beat {
  std::string place;
  uint64_t progress = 0;
  uint64_t polls = 0;
  int waits_for = PulseReading::kNobody;

  static Beat of(const PulseReading& reading);
  static Beat of(std::string_view body);
  std::string body() const;
};

/// Every parent sends its beats to the two lowest ranks, and these send theirs to all: each rank knows whether it is cut off
/// from them, they know of all, and what a second takes grows with the ranks, not with their pairs.
class Vigil {
 public:
  using Time = Judgement::Time;
  static constexpr double kDefaultLimit = 60;

  Vigil(int rank, int size);

  /// comm.silence_limit, in seconds.
  void set_limit(double seconds) { limit_ = seconds; }
  /// All are connected: from now on peers are expected to be heard.
  void begin(Time now);
  /// To whom this rank's beats go.
  const std::vector<int>& listeners() const { return listeners_; }

  void heard(int rank, Time now);
  void beat(int rank, const Beat& beat, Time now);
  void exited(int rank);
  /// Where the rank was when last heard of; empty when it never was.
  std::string place(int rank) const;
  bool lost(int rank) const;

  /// Who is over the limit now. `alive`: this rank's own worker lives. `judges`: this rank speaks for all, and looks whether
  /// anybody gets on.
  std::vector<Fault> faults(Time now, bool alive, bool judges);

 private:
  struct Rank {
    Beat beat;
    bool known = false;  ///< a beat has come
    bool exited = false;
    bool lost = false;
    Time heard;  ///< by any message
    Time moved;  ///< progress or polls
    Time progressed;
  };
  void forgive_own_absence(Time now);
  std::optional<Fault> stuck(Time now) const;

  int rank_;
  double limit_ = kDefaultLimit;
  std::vector<Rank> ranks_;
  std::vector<int> listeners_;
  Time looked_;  ///< when faults() was last called
  bool begun_ = false;
};

}  // namespace athanor::comm
