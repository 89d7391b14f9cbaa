// Generation taken apart: reading a prompt, and one token after another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "advisor/op_figures.h"
#include "model/config.h"

namespace athanor::advisor {

struct DecodeBenchOptions {
  std::filesystem::path model;         ///< a model as everywhere, or a training config (.toml)
  std::vector<std::string> overrides;  ///< as --set; for a config alone
  ops::Precision precision = ops::Precision::kBf16;
  int64_t rounds = 3;   ///< each measures every figure once
  int64_t tokens = 32;  ///< decoded in each round
};

/// One way of running the model.
struct DecodeFigures {
  int64_t tokens = 0;  ///< read at a time: of the prompt, or one for each sequence
  int64_t sequences = 1;
  int64_t context = 0;  ///< tokens that each sequence held before
  double tokens_per_second = 0;
  OpTable table;  ///< of one pass: a prompt, or one token for each sequence
};

struct DecodeReport {
  std::string precision;
  int threads = 0;
  ops::Isa isa = ops::Isa::kReference;
  model::ParameterCounts parameters;
  bool random_weights = false;
  int64_t rounds = 0;
  /// What a token's way through the model reads of the weights: its one expert in each layer, and the head.
  double active_weight_bytes = 0;
  /// Tokens per second at batch 1 that reading these at the measured bandwidth allows, and the share reached.
  double bound_tokens_per_second = 0;
  double bound_share = 0;
  Ceilings ceilings;  ///< medians
  std::vector<DecodeFigures> prefill;
  std::vector<DecodeFigures> decode;  ///< batch 1 first
};

/// Reads random prompts of 512 and 2048 tokens and decodes at batch 1 (after 512 tokens) and batch 8
/// (after 64 each). The tokens that follow are random too: what a model repeats would come from the caches. A
/// config stands for its geometry with freshly drawn weights. Throws kUsage, kData or kResources as
/// reading a config or a model does.
DecodeReport measure_decode(const DecodeBenchOptions& options);

std::string to_text(const DecodeReport& report);

}  // namespace athanor::advisor
