// `athanor train`: from a config and a folder to a run that has started, gone on or been described.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "train/memory_plan.h"

namespace athanor::train {

struct TrainOptions {
  fs::path config;
  std::vector<std::string> overrides;  ///< --set a.b=c
  std::optional<std::string> data;     ///< text file, folder or packed shards; instead of data.path
  fs::path out;                        ///< the run directory; empty: runs/<name of the config>
  std::optional<std::string> init;     ///< a model whose weights and tokenizer the run starts from
  std::string resume = "auto";         ///< "auto", "none" or a checkpoint
  std::optional<int64_t> steps;        ///< stop after this global step
  std::string program;                 ///< its version: ranks must have the same
};

struct TrainReport {
  bool leads = true;  ///< this rank is the one that speaks
  fs::path directory;
  fs::path checkpoint;  ///< of the last step
  fs::path model;
  int64_t step = 0;   ///< steps done
  int64_t steps = 0;  ///< of the whole run
};

/// Trains until the run or options.steps is done, with all ranks of the launch. Errors as Trainer::run, and kUsage and kData for what is wrong with
/// config, directory, data or checkpoints.
TrainReport train(const TrainOptions& options);

/// What train() would do, as text for a person: phases, steps, tokens, parameters, memory, files. Writes nothing.
std::string describe_training(const TrainOptions& options);

/// What was made and what to type next.
std::string to_text(const TrainReport& report);

/// The memory plan of a config, as `train` would take on each of `ranks` ranks of machines like this one.
MemoryPlan plan_memory_of(const fs::path& config, const std::vector<std::string>& overrides,
                          int ranks);

}  // namespace athanor::train
