// The sequences of one optimizer step, in memory before its first micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "data/loader.h"
#include "model/model.h"
#include "train/phases.h"

namespace athanor::train {

/// Ids, targets and document boundaries of this rank's sequences. The number of targets of a whole
/// step is known before its first micro-batch, so that every micro-batch's gradient has its final
/// scale.
class GlobalBatch {
 public:
  /// Room for `sequences` sequences of `longest` tokens, read in micro-batches of `micro_batch`,
  /// from `arena`.
  GlobalBatch(int64_t sequences, int64_t longest, int64_t micro_batch, Arena& arena);

  /// Reads sequences [first, first + count) of the step: sample plan.first_sample + offset + i
  /// each. `offset` is what a roll-back stepped over in the phase.
  void fetch(const data::Loader& loader, const StepPlan& plan, uint64_t offset, int64_t first,
             int64_t count);

  /// Targets of what was fetched.
  int64_t targets() const { return targets_; }
  /// Mean number of keys that a token of a full layer sees: what attention's useful work goes by.
  double mean_keys() const;

  /// Sequences [first, first + count) of what was fetched as one batch; valid until the next call.
  const model::Batch& micro_batch(int64_t first, int64_t count);
  /// For planning: `count` sequences of `length` tokens, in as few segments as they can have or in
  /// as many.
  const model::Batch& planned_batch(int64_t count, int64_t length, bool one_segment_a_token);

 private:
  Tensor ids_;             ///< i32 [sequences · longest]
  Tensor targets_of_;      ///< i32 [sequences · longest]
  Tensor segment_begins_;  ///< i32 [sequences · longest]: of each sequence, from its first token
  Tensor segment_counts_;  ///< i32 [sequences]
  std::vector<int32_t> sample_begins_;
  Tensor begins_;                        ///< i64 [micro_batch · longest + 1]
  std::vector<int64_t> planned_begins_;  ///< while the arena only plans
  model::Batch batch_;
  int64_t length_ = 0;
  int64_t sequences_ = 0;
  int64_t targets_ = 0;
  int64_t visible_keys_ = 0;
};

}  // namespace athanor::train
