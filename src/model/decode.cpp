// Decoding: the forward pass of tokens that continue sequences (zaya1.md §11).
#include <fmt/format.h>

#include "model/model_impl.h"
#include "ops/norm.h"
#include "ops/routing.h"
#include "ops/trace.h"

namespace athanor::model {
namespace {

/// Throws before anything is touched: a sequence is advanced in all layers or in none.
void require_room(const SequenceState& state, int64_t tokens) {
  for (const LayerState& layer : state.layers) {
    if (layer.count + tokens > layer.keys.rows()) {
      throw bug(fmt::format("a cache of {} rows that holds {} has no room for {} tokens more",
                            layer.keys.rows(), layer.count, tokens));
    }
  }
}

}  // namespace

void Model::extend(ops::Context& ctx, Arena& activations, const Tensor& ids,
                   std::span<const int64_t> begins, std::span<SequenceState* const> states,
                   const Tensor& logits, const Tensor& all_logits) {
  Impl& m = *impl_;
  require(begins.size() == states.size() + 1, "one state a segment");
  require(!logits.empty() || !all_logits.empty(), "decoding without logits to write");
  for (size_t s = 0; s < states.size(); ++s) require_room(*states[s], begins[s + 1] - begins[s]);
  ArenaScope scope(activations);
  Pass pass = m.begin_pass(ctx, activations, ids, begins, states, nullptr);
  const int64_t tokens = ids.numel(), segments = pass.segments(), hidden = m.config.hidden;
  const Tensor r = activations.tensor(m.real, {tokens, hidden});
  m.embed(pass, ids, r);
  m.blocks_forward(pass, r, nullptr);

  const ops::PartScope part(ctx, "head");
  const Tensor last = activations.tensor(DType::kI32, {segments});
  if (!ctx.planning()) {
    for (int64_t s = 0; s < segments; ++s) {
      last.as<int32_t>()[s] = static_cast<int32_t>(begins[s + 1] - 1);
      states[s]->position += begins[s + 1] - begins[s];
    }
  }
  const bool every = !all_logits.empty();
  Tensor rows = r;
  if (!every) {
    rows = activations.tensor(m.real, {segments, hidden});
    ops::gather_rows(ctx, r, last, segments, rows);
  }
  const Tensor h = activations.tensor(m.act, {rows.rows(), hidden});
  const Tensor inv_norm = activations.tensor(m.real, {rows.rows()});
  ops::rms_norm(ctx, rows, m.final_norm.value, m.config.rms_norm_eps, h, inv_norm);
  ops::linear(ctx, h, m.packed_head.forward, every ? all_logits : logits);
  if (every && !logits.empty()) ops::gather_rows(ctx, all_logits, last, segments, logits);
}

}  // namespace athanor::model
