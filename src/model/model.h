// The model: layers strung together, forward, backward and decoding (zaya1.md §2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/parameters.h"
#include "model/state.h"
#include "ops/context.h"

namespace athanor::model {

/// Packed documents of one micro-batch: T tokens in segments [begins[s], begins[s+1]). A batch of B
/// rows is B segments; a left-padded row is the segment of its real tokens.
struct Batch {
  Tensor ids;                       ///< i32 [T]
  Tensor targets;                   ///< i32 [T], negative: none; may be empty
  std::span<const int64_t> begins;  ///< S + 1 values from 0 to T
  int64_t tokens() const { return ids.numel(); }
};

/// What a pass counted.
struct Statistics {
  double loss_sum = 0;  ///< nats, over targets
  int64_t targets = 0;
  std::vector<int64_t> expert_counts;  ///< [L][E+1], the skip class last
};

/// Sees named activations as golden/README.md names them ("layers.0.cca_query", "residual.input",
/// …). For probe and tests; the tensor is valid during the call only. Shapes are the README's with
/// (B, T) flattened to tokens. An observed pass takes a little more memory: a plan of
/// it is handed an observer too, which is not called.
using Observer = std::function<void(std::string_view name, const Tensor& value)>;

struct ModelOptions {
  bool training = false;  ///< packs the orientations that backward needs
  std::vector<bool>
      recompute;  ///< one a layer: drop the block's activations and run it again in backward
  int64_t rope_positions = 0;  ///< rows of the rotary tables: the longest sequence that will be run
  /// Token t of a batch goes to expert t mod E whatever the router would choose, with that expert's
  /// probability: equal loads, for measurements. Nothing that learns or serves sets this.
  bool balanced_routing = false;
};

/// Owns packed weights and rotary tables, borrows the Parameters. All memory is taken from arenas
/// handed in, so that the same code with planning arenas tells what a run will take.
class Model {
 public:
  Model(Parameters& parameters, Arena& weights, ModelOptions options);
  ~Model();

  /// Repacks weights if the parameters' version changed since.
  void refresh(ops::Context& ctx);
  /// New base of the full layers' rotary angles (phases change it).
  void set_theta(double theta);

  /// Forward and backward of one micro-batch: gradients of gradient_scale · Σ losses accumulate
  /// into the parameters' gradients (which the caller cleared once per accumulation), each
  /// announced to `sink`. Adds to `statistics`. Activations are taken from `activations` and given
  /// back.
  void forward_backward(ops::Context& ctx, Arena& activations, const Batch& batch,
                        double gradient_scale, GradientSink& sink, Statistics& statistics,
                        const Observer& observer = {});

  /// Forward alone. token_loss (real [T], may be empty) is written; observed names include "logits"
  /// (real [T, V]) when `want_logits` (then they are materialised: probe and tests only).
  void forward(ops::Context& ctx, Arena& activations, const Batch& batch, const Tensor& token_loss,
               Statistics& statistics, bool want_logits = false, const Observer& observer = {});

  /// Decoding: segment s of `ids` (i32 [T], cut by begins) continues states[s], which it advances
  /// (not while planning). logits (real [S, V]) are those after each segment's last token; they may
  /// be empty where all_logits (real [T, V]), which receives those of every token, is not.
  void extend(ops::Context& ctx, Arena& activations, const Tensor& ids,
              std::span<const int64_t> begins, std::span<SequenceState* const> states,
              const Tensor& logits, const Tensor& all_logits = {});

  const ModelConfig& config() const;
  Parameters& parameters();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor::model
