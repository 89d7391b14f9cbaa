// What a Model holds, shared by its training pass (model.cpp) and decoding (decode.cpp).
#pragma once

#include "model/block.h"
#include "model/model.h"

namespace athanor::model {

struct Model::Impl {
  Impl(Parameters& p, Arena& arena, ModelOptions o);

  void build_rope();
  void refresh(ops::Context& ctx);
  Pass begin_pass(ops::Context& ctx, Arena& arena, const Tensor& ids,
                  std::span<const int64_t> begins, std::span<SequenceState* const> states,
                  const Observer* observer);
  void embed(Pass& pass, const Tensor& ids, const Tensor& residual);
  void blocks_forward(Pass& pass, const Tensor& residual, Statistics* statistics);
  void block_forward_kept(Pass& pass, int64_t l, Statistics& statistics);
  void block_backward(Pass& pass, int64_t l, const Tensor& dresidual, GradientSink& sink);
  void head_backward(Pass& pass, const Batch& batch, double gradient_scale, const Tensor& dresidual,
                     GradientSink& sink, Statistics& statistics);
  void embed_backward(Pass& pass, const Tensor& ids, const Tensor& dresidual, GradientSink& sink);
  void count_experts(const Pass& pass, int64_t l, Statistics& statistics) const;

  bool recomputes(int64_t l) const { return !options.recompute.empty() && options.recompute[l]; }
  std::span<int64_t> offsets_of(int64_t l) {
    return std::span(offsets).subspan(l * config.classes(), config.classes());
  }
  /// The router state of the layer before l; empty in layer 0.
  Tensor state_before(int64_t l) const { return l == 0 ? Tensor{} : state[l - 1]; }

  Parameters& parameters;
  const ModelConfig& config;
  Arena& weights;
  ModelOptions options;
  DType real, act;

  double theta;
  size_t rope_mark = 0;
  ops::RopeTable rope_full, rope_sliding;

  const Parameter &embedding, &final_norm;
  Residual input;
  PackedWeight packed_head;
  std::vector<Block> blocks;
  uint64_t packed_version = 0;

  // Bookkeeping of the pass in hand, kept so that a step takes nothing from the heap.
  std::vector<int64_t> offsets;  // [L][E+1]
  std::vector<ops::AttentionSegment> attention_segments;
  std::vector<Tensor> residual;  // [L+1]: a block's input and the last one's output
  std::vector<Tensor> state;     // [L]
  Tensor dstate, dprevious;
  std::vector<BlockActivations> saved;  // [L]
  std::vector<size_t> marks;            // [L]: where a block's memory begins
};

}  // namespace athanor::model
