// From what the parents of a launch learn of each other to how it ends: no process, no clock and no socket in it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/pulse.h"

namespace athanor::comm {

/// What can go wrong with a rank for good.
struct Fault {
  enum class Kind : uint8_t {
    kSignal,        ///< its worker died of a signal
    kParentLost,    ///< its parent is gone
    kLauncherLost,  ///< who started its parent is gone
    kSilent,        ///< its worker neither works nor waits
    kUnheard,       ///< nothing came from its parent
    kUnreachable,   ///< its parent could not be connected with
    kCode,          ///< its worker ended with a code that the others do not share
    kStuck,         ///< it waits for others, as all do, and none gets on
  };
  Kind kind = Kind::kSignal;
  int rank = 0;
  int number = 0;      ///< the signal, or the exit code
  double seconds = 0;  ///< for so long
  std::string place;   ///< PulseReading::place()
  std::string text;    ///< more, for a person

  std::string body() const;
  static Fault of(std::string_view body);
};

/// How a worker ended by itself.
struct WorkerExit {
  int rank = 0;
  int code = 0;
  std::string place;
  std::string text;  ///< its error's message

  std::string body() const;
  static WorkerExit of(std::string_view body);
};

/// "SIGKILL".
std::string signal_name(int number);

/// Collects exits and faults. A launch ends in order when all workers have ended with one code; with code 4 when one dies, or
/// ends otherwise than its peers. What follows from another's death (a failed transfer, an aborting library) is not the cause:
/// for a moment after the first fault the likelier cause may still come.
class Judgement {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  struct Outcome {
    int code = 0;
    std::string line;  ///< to be said by one rank; may be empty
  };

  explicit Judgement(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  void exited(const WorkerExit& ended, Time now);
  void add(const Fault& fault, Time now);
  bool has_exited(int rank) const { return exits_.contains(rank); }

  /// True once the launch cannot end well and this is no mere consequence: workers need not go on.
  bool hopeless() const;
  /// True once something is known to be wrong.
  bool faulty() const { return !faults_.empty(); }
  /// How it ends, once that is settled.
  std::optional<Outcome> outcome(Time now);
  /// How it ends for a rank that knows of no other: by its own exit or fault.
  Outcome of_one(int rank) const;

 private:
  struct Known {
    Fault fault;
    Time time;
  };
  void check_codes(Time now);
  std::string line_of(const Fault& fault) const;
  std::string line() const;

  std::vector<std::string> hosts_;
  std::map<int, WorkerExit> exits_;
  Time first_exit_;
  std::vector<Known> faults_;
};

}  // namespace athanor::comm
