#include "model/state.h"

#include <algorithm>

namespace athanor::model {
namespace {

void zero(const Tensor& t) { std::fill_n(t.data(), t.bytes(), std::byte{0}); }

}  // namespace

SequenceState allocate_state(Arena& arena, const ModelConfig& config, ops::Precision precision,
                             int64_t capacity, int64_t chunk) {
  require(capacity >= 0 && chunk >= 1,
          "a sequence's state needs room for at least one token a call");
  const DType real = ops::real_dtype(precision);
  const DType act = ops::act_dtype(precision);
  const int64_t width = config.heads.key * config.heads.size;
  SequenceState state;
  for (const LayerKind kind : config.layer_kinds) {
    const int64_t rows = kind == LayerKind::kSliding
                             ? std::min(capacity, config.sliding_window - 1 + chunk)
                             : capacity;
    LayerState layer;
    layer.keys = arena.tensor(act, {rows, width});
    layer.values = arena.tensor(act, {rows, width});
    layer.convolution = arena.tensor(real, {2, config.heads.channels()});
    layer.delayed_value = arena.tensor(real, {config.value_half()});
    state.layers.push_back(layer);
  }
  if (!arena.planning()) reset(state);
  return state;
}

void reset(SequenceState& state) {
  state.position = 0;
  for (LayerState& layer : state.layers) {
    layer.count = 0;
    zero(layer.convolution);  // zeros before the first token: the virtual y1[−1] becomes the bias
    zero(layer.delayed_value);
  }
}

}  // namespace athanor::model
