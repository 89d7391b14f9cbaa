// The experts: one layer's parameters, forward and backward (zaya1.md §2.4).
#pragma once

#include <span>

#include "model/packed_weight.h"
#include "model/parameters.h"
#include "model/pass.h"

namespace athanor::model {

/// What the backward needs of a forward. T rows, of which the first offsets[E] hold the tokens that
/// have an expert, sorted by expert.
struct ExpertsActivations {
  Tensor order;                ///< i32 [T]: the token at each sorted place
  std::span<int64_t> offsets;  ///< [E+1]: where each expert's rows begin; the last is their count
  Tensor x;                    ///< act [T, D], sorted
  Tensor gate_up;              ///< act [T, 2I]
  Tensor inner;                ///< act [T, I]
  Tensor y;                    ///< act [T, D]

  int64_t count() const { return offsets.back(); }
};

class Experts {
 public:
  Experts(const Parameters& parameters, int64_t layer, Arena& weights, bool training);
  void refresh(ops::Context& ctx);

  /// `offsets` is the caller's room for E+1 numbers.
  ExpertsActivations allocate(Arena& arena, int64_t tokens, std::span<int64_t> offsets) const;
  /// out (real [T, D]) is weight_t · expert(x_t), 0 for a token of the skip class. x act [T, D],
  /// expert i32 [T], weight real [T].
  void forward(Pass& pass, const Tensor& x, const Tensor& expert, const Tensor& weight,
               const ExpertsActivations& saved, const Tensor& out);
  /// From dout real [T, D]: dweight (real [T]) and dx (real [T, D], its first count() rows in
  /// sorted order) are written.
  void backward(Pass& pass, const Tensor& dout, const Tensor& weight,
                const ExpertsActivations& saved, const Tensor& dweight, const Tensor& dx,
                GradientSink& sink);

 private:
  const ModelConfig& config_;
  int64_t layer_;
  DType real_, act_;
  const Parameter &gate_up_, &down_;
  PackedStack packed_gate_up_, packed_down_;
};

}  // namespace athanor::model
