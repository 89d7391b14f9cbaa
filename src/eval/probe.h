// `athanor probe`: the exact activations, loss and gradients of a batch, for comparison with other engines.
#pragma once

#include <optional>

#include "base/files.h"
#include "ops/context.h"

namespace athanor::eval {

struct ProbeOptions {
  fs::path model;                     ///< a model directory, a checkpoint or a run directory
  fs::path batch;                     ///< see read_probe_batch
  fs::path out;                       ///< written, replacing an older file
  std::optional<fs::path> gradients;  ///< the same; needs a batch with targets or labels
  ops::Precision precision = ops::Precision::kFp32;
};

/// What a probe did, for one line to a person.
struct ProbeResult {
  int64_t tokens = 0;
  int64_t tensors = 0;         ///< written to `out`
  std::optional<double> loss;  ///< mean over the targets, nats; none without targets
};

/// Writes to `out`, F32 with (B, T) leading (golden/README.md): `logits` [B, T, V], `residual.input` and `final_norm`
/// [B, T, D]; per layer `layers.l.` `cca_query`, `cca_key`, `cca_value` [B, T, heads, d], `attn_output`, `residual_mid`,
/// `moe_output`, `residual` [B, T, D], `router_logits` [B, T, E+1], `router_state` [B, T, R], `expert_prob`,
/// `router_margin` and, I64, `expert` [B, T] (E: skip); `loss` [1] where there are targets. Places that
/// attention_mask leaves out hold 0, and −1 in `expert`. To `gradients`: the gradients of the loss under the weights'
/// names and shapes. Both files appear complete or not at all.
/// Throws kUsage for ids outside the vocabulary and for paths that cannot be written, kData for a malformed batch or a
/// model that does not load, kNumbers when an output is not finite, kResources.
ProbeResult probe(const ProbeOptions& options);

}  // namespace athanor::eval
