// A training step taken apart: what each op takes and how near it is to what the machine can do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "advisor/op_figures.h"
#include "model/config.h"

namespace athanor::advisor {

enum class StepOptimizer : uint8_t {
  kOfConfig,  ///< what the config names
  kAdamW,
  kMuon,
  kNone,  ///< forward and backward alone: no norm, no update, no packing
};

struct StepBenchOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;  ///< as --set
  StepOptimizer optimizer = StepOptimizer::kOfConfig;
  bool balanced_routing = false;  ///< equal loads for all experts, whatever the router would choose
  int64_t steps = 3;              ///< measured, after one that is not
};

struct StepReport {
  std::string optimizer;  ///< "muon", "adamw" or "none"
  bool balanced_routing = false;
  std::string precision;
  int threads = 0;
  ops::Isa isa = ops::Isa::kReference;
  model::ParameterCounts parameters;
  int64_t steps = 0;
  int64_t tokens = 0;       ///< of a step
  int64_t micro_batch = 0;  ///< sequences
  int64_t sequence = 0;     ///< tokens of each
  double useful_flops = 0;  ///< of a step, as training logs count them
  double tokens_per_second = 0;
  double ceiling_share = 0;  ///< useful FLOPs over what the matrix ceiling could do meanwhile
  Ceilings ceilings;         ///< medians
  OpTable table;

  double step_seconds() const { return table.seconds; }
};

/// Trains a freshly drawn model on random tokens, in the workspace and with the steps that `athanor
/// train` would use, and measures the ceilings before and after every step. Writes nothing. Throws
/// kUsage for a faulty config or option and kResources for one that does not fit.
StepReport measure_step(const StepBenchOptions& options);

std::string to_text(const StepReport& report);

}  // namespace athanor::advisor
