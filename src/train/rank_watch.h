// Whether the ranks still have the same parameters: silent corruption of memory or arithmetic shows there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"

namespace athanor::train {

/// Compares the ranks' parameters, which the exchange made equal, every so many steps. What differs is replayed from the
/// newest checkpoint that is older than the last comparison without a difference: steps give the same bits each time, so the
/// replay tells who was wrong, and whether it stays.
/// It finds what reaches one rank's copy of the parameters. What an owner itself computes wrongly all ranks receive alike:
/// that is not found.
class RankWatch {
 public:
  enum class Verdict : uint8_t {
    kNotDue,
    kSame,
    kReplay,  ///< they differ for the first time
    kStays,   ///< they differ again at the step that was replayed
  };
  /// `interval` steps between comparisons; 0: none. A world of one has nothing to compare.
  RankWatch(comm::Communicator& communicator, int64_t interval)
      : communicator_(communicator), interval_(interval) {}

  /// The run stands at `step`, where all ranks are taken to be equal.
  void begin_at(int64_t step) { good_step_ = step; }
  bool due(int64_t step) const {
    return communicator_.size() > 1 && interval_ > 0 && step % interval_ == 0;
  }
  /// After step `step`, on all ranks.
  Verdict compare(int64_t step, const model::Parameters& parameters);

  /// The newest step after which all ranks were equal.
  int64_t good_step() const { return good_step_; }
  /// After kReplay and kStays: the ranks that differ from the most, or all where none are more. After kSame: those that a
  /// replay has proved wrong.
  const std::vector<int>& suspects() const { return suspects_; }

 private:
  comm::Communicator& communicator_;
  int64_t interval_;
  int64_t good_step_ = 0;
  int64_t disputed_step_ = -1;
  std::vector<std::string> disputed_;  ///< every rank's hash then
  std::vector<int> suspects_;
};

/// "rank 3", "ranks 0 and 1", "ranks 0, 1 and 5".
std::string text_of(const std::vector<int>& ranks);

}  // namespace athanor::train
