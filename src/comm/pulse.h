// What a rank is doing, as its parent sees it: a page of memory that both share (docs/parallel.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace athanor::comm {

enum class Phase : uint8_t {
  kStart,
  kData,
  kForward,
  kBackward,
  kReduce,
  kOptimizer,
  kGather,
  kValidate,
  kSave,
  kLoad,
  kEnd,
};
constexpr int kPhases = 11;
/// "forward", as in "the forward of step 12".
std::string_view name_of(Phase phase);

/// A moment of a pulse.
struct PulseReading {
  static constexpr int kNobody = -2;
  static constexpr int kAny = -1;

  Phase phase = Phase::kStart;
  int64_t step = 0;
  uint64_t progress = 0;    ///< rises with work done
  uint64_t polls = 0;       ///< rises while it waits for peers
  int waits_for = kNobody;  ///< the rank waited for

  /// "in the backward of step 12", "in the start" before any step.
  std::string place() const;
};

/// Says that this rank lives and what it does. Work raises one counter and waiting for peers another; a process in which
/// neither moves is silent: stopped, or in a loop that leads nowhere. Whatever may take longer than comm.silence_limit must
/// therefore call beat() on its way. All calls are a few stores, from any thread.
class Pulse {
 public:
  /// A page of this process alone: nobody looks.
  Pulse();
  /// The page behind a file descriptor (memfd), which stays the caller's.
  explicit Pulse(int fd);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// A file descriptor of a new page, for both sides to map; closed on exec unless the caller says otherwise.
  static int new_page();

  /// A phase begins; `step` counts from 1, 0 is before the first.
  void enter(Phase phase, int64_t step);
  /// Some work is done.
  void beat();
  /// Still waiting for `rank`'s part (kAny: for whoever comes first).
  void waiting(int rank = PulseReading::kAny);

  PulseReading read() const;

 private:
  struct Page;
  Page* page_;
};

}  // namespace athanor::comm
