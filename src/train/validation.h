// Validation: what the model charges for held-out documents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/shards.h"
#include "data/tokenizer.h"
#include "model/model.h"
#include "ops/context.h"
#include "train/config.h"

namespace athanor::train {

struct ValidationResult {
  double loss = 0;           ///< nats a token, EOS included
  double bits_per_byte = 0;  ///< of the documents' UTF-8 bytes
  int64_t tokens = 0;
  int64_t bytes = 0;
};

/// The held-out documents that a run measures itself on: validation.documents of them, spread
/// evenly over all, each at most its first 8,192 tokens. They are the same at every validation.
class Validation {
 public:
  Validation(const Config& config, const data::Tokenizer& tokenizer,
             std::span<const std::shared_ptr<const data::TokenSource>> held_out);

  bool empty() const { return documents_.empty(); }
  /// Charges every token with a context of `sequence` tokens. The model must be fresh
  /// (Model::refresh).
  ValidationResult run(ops::Context& ctx, model::Model& model, Arena& activations,
                       int64_t sequence) const;

 private:
  bool bos_;
  int64_t micro_batch_;
  std::vector<std::vector<int32_t>> documents_;
  int64_t bytes_ = 0;
};

/// Takes what the largest validation of a config takes, in planning arenas.
void plan_validation(const Config& config, ops::Context& ctx, model::Model& model,
                     Arena& activations);

}  // namespace athanor::train
