// Which tensor goes to which optimizer: one readable table.
#pragma once

#include <cstdint>

#include "model/config.h"

namespace athanor::optim {

/// What the config calls the optimizer: "muon" is Muon for matrices with AdamW for the rest,
/// "adamw" is AdamW for all.
enum class OptimizerKind : uint8_t { kMuon, kAdamW };

/// How one tensor is moved.
enum class Rule : uint8_t {
  kMuon,          ///< orthogonalised momentum, a tensor [E, rows, cols] as E matrices; decays
  kAdamW,         ///< decays
  kAdamWNoDecay,  ///< 1-D tensors: scales, biases, norms, temperatures
};

/// The rule of a kind of parameter (zaya1.md §6.3; the lists of golden/train/meta.json).
Rule rule_of(OptimizerKind optimizer, model::ParameterKind parameter);

}  // namespace athanor::optim
