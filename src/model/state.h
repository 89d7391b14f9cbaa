// What one sequence carries from token to token: keys, values and CCA's short history (zaya1.md
// §11).
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "model/config.h"
#include "ops/context.h"

namespace athanor::model {

/// One layer's memory of a sequence.
struct LayerState {
  Tensor keys;    ///< act [capacity, Hk·d], normed, temperature applied, rotated
  Tensor values;  ///< act [capacity, Hk·d]
  int64_t count =
      0;  ///< valid rows of keys and values; a sliding layer drops the oldest it can no longer see
  Tensor convolution;  ///< real [2, C]: the last two pre-convolution columns, older first; zeros at
                       ///< the start
  Tensor delayed_value;  ///< real [value_half]: the last token's delayed projection; zeros at the
                         ///< start
};

/// A sequence being decoded. Invariant: `position` tokens have gone through every layer.
struct SequenceState {
  int64_t position = 0;
  std::vector<LayerState> layers;
};

/// Room for `capacity` tokens. A sliding layer needs only window − 1 + `chunk` rows, where chunk is
/// the most tokens that one call of Model::extend will add.
SequenceState allocate_state(Arena& arena, const ModelConfig& config, ops::Precision precision,
                             int64_t capacity, int64_t chunk);
/// Back to the empty sequence.
void reset(SequenceState& state);

}  // namespace athanor::model
