// How a run starts: which config holds, what it starts from, and whether that fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"
#include "train/run_directory.h"
#include "train/train.h"

namespace athanor::train {

/// The config as the command line says it: file, --set, --data, --init.
Config wanted_config(const TrainOptions& options);
fs::path run_directory_of(const TrainOptions& options);

/// The config.toml of a run directory, which the program wrote. Throws kData, with the way out, when it cannot be read.
Config parse_stored_config(const std::string& toml, const fs::path& path);

/// Fills in what the vocabulary decides and refuses, by key, what does not fit together: a model.vocab smaller than the
/// tokenizer's, a geometry other than that of run.init, an optimizer state that run.init does not have.
void resolve_vocab(Config& config, int64_t tokenizer_vocab);

/// Where a run starts.
struct Start {
  Config config;                                     ///< the run's, changes adopted
  std::optional<checkpoint::Checkpoint> checkpoint;  ///< none: step 0
};

/// Reads what lies in `directory` and decides by options.resume; writes events for changed keys, damaged checkpoints, cut
/// metrics and what was set aside. A directory whose run has a checkpoint keeps its config, auto values included; one that has none
/// yet takes the wanted one. Throws kUsage when the configs do not match, kData when no checkpoint of the run verifies.
Start find_start(const TrainOptions& options, RunDirectory& directory);

}  // namespace athanor::train
