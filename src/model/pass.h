// What the layers share while one batch goes through them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "ops/attention.h"
#include "ops/cca.h"

namespace athanor::model {

/// One pass of T tokens in S segments. A segment is fresh (training, plain forward), or continues a
/// sequence.
struct Pass {
  ops::Context& ctx;
  Arena& arena;  ///< activations and temporaries
  ops::Segments begins;
  Tensor positions;                          ///< i32 [T], restarting with each segment
  std::span<SequenceState* const> states{};  ///< one a segment when decoding, else empty
  const Observer* observer = nullptr;
  std::vector<ops::AttentionSegment>& attention_segments;  ///< reused from layer to layer

  int64_t segments() const { return static_cast<int64_t>(begins.size()) - 1; }
  bool decoding() const { return !states.empty(); }
  bool planning() const { return ctx.planning(); }
};

/// Shows `value` to the pass's observer as "layers.<layer>.<name>", or as `name` where layer is −1.
void observe(const Pass& pass, int64_t layer, std::string_view name, const Tensor& value);

/// Shows columns [begin, begin + heads·size) of `value` as [T, heads, size]; the copy comes from
/// the pass's arena.
void observe_heads(const Pass& pass, int64_t layer, std::string_view name, const Tensor& value,
                   int64_t begin, int64_t heads, int64_t size);

/// Shows how far the chosen class of probability + bias leads the second best, real [T].
void observe_margin(const Pass& pass, int64_t layer, const Tensor& probability, const Tensor& bias);

}  // namespace athanor::model
