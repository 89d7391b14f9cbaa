#include "infer/sequences.h"

#include <algorithm>

namespace athanor::infer {

Sequences::Sequences(ops::Context& ctx, model::Model& model, Arena& activations, int64_t count,
                     int64_t capacity, int64_t chunk)
    : ctx_(ctx),
      model_(model),
      activations_(activations),
      scope_(activations),
      capacity_(capacity),
      chunk_(chunk),
      row_of_(static_cast<size_t>(count)) {
  const ops::Precision precision = model.parameters().precision();
  for (int64_t i = 0; i < count; ++i) {
    states_.push_back(
        model::allocate_state(activations, model.config(), precision, capacity, chunk));
  }
  logits_ = activations.tensor(ops::real_dtype(precision), {count, model.config().vocab});
}

void Sequences::add(int64_t sequence, std::span<const int32_t> tokens) {
  require(!tokens.empty() && static_cast<int64_t>(tokens.size()) <= chunk_,
          "a call adds one token to a chunk of them");
  if (called_.empty()) {
    ids_.clear();
    begins_.assign(1, 0);
  }
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  begins_.push_back(static_cast<int64_t>(ids_.size()));
  row_of_[static_cast<size_t>(sequence)] = static_cast<int64_t>(called_.size());
  called_.push_back(&states_[static_cast<size_t>(sequence)]);
}

void Sequences::run() {
  const Tensor ids = Tensor::of(ids_.data(), {static_cast<int64_t>(ids_.size())});
  model_.extend(ctx_, activations_, ids, begins_, called_,
                logits_.slice_rows(0, static_cast<int64_t>(called_.size())));
  called_.clear();
}

std::span<const float> Sequences::logits(int64_t sequence) const {
  return {logits_.row<float>(row_of_[static_cast<size_t>(sequence)]),
          static_cast<size_t>(logits_.cols())};
}

void Sequences::reset(int64_t sequence) { model::reset(states_[static_cast<size_t>(sequence)]); }

void Sequences::plan(int64_t tokens) {
  const std::vector<int32_t> zeros(static_cast<size_t>(chunk_));
  for (int64_t i = 0; i < count(); ++i) {
    const int64_t part = std::clamp<int64_t>(tokens, 1, chunk_);
    tokens -= part;
    model::SequenceState& state = states_[static_cast<size_t>(i)];
    state.position = capacity_ - part;
    for (model::LayerState& layer : state.layers) {
      layer.count = std::min(state.position, layer.keys.rows() - part);
    }
    add(i, std::span(zeros).first(static_cast<size_t>(part)));
  }
  run();
}

}  // namespace athanor::infer
