// Sequences that are decoded side by side: one product a layer reads the weights for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/arena.h"
#include "model/model.h"
#include "model/state.h"
#include "ops/context.h"

namespace athanor::infer {

/// Room for a number of sequences. What becomes of one depends, to the bit, on its own tokens and on how they were cut into
/// calls, never on its neighbours. All memory lies in the activations' arena and is given back at the end.
class Sequences {
 public:
  /// Room for `count` sequences of `capacity` tokens each, of which a call adds at most `chunk` to one.
  Sequences(ops::Context& ctx, model::Model& model, Arena& activations, int64_t count,
            int64_t capacity, int64_t chunk);

  /// The next call continues `sequence` by `tokens`, at least one. Once a call for each sequence.
  void add(int64_t sequence, std::span<const int32_t> tokens);
  /// Runs the model over what was added.
  void run();
  /// After the last token that the last call added to `sequence`.
  std::span<const float> logits(int64_t sequence) const;
  /// Back to the empty sequence.
  void reset(int64_t sequence);

  int64_t count() const { return static_cast<int64_t>(states_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t length(int64_t sequence) const { return states_[static_cast<size_t>(sequence)].position; }

  /// Takes, in a planning arena, what the largest call takes that adds `tokens` to some sequences and one to each other.
  void plan(int64_t tokens);

 private:
  ops::Context& ctx_;
  model::Model& model_;
  Arena& activations_;
  ArenaScope scope_;
  int64_t capacity_;
  int64_t chunk_;
  std::vector<model::SequenceState> states_;
  Tensor logits_;  // [count, V]

  // Of the next call, then of the last.
  std::vector<int32_t> ids_;
  std::vector<int64_t> begins_{0};
  std::vector<model::SequenceState*> called_;
  std::vector<int64_t> row_of_;  // of logits_, by sequence
};

}  // namespace athanor::infer
