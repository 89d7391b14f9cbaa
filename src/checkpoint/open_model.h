// MODEL on the command line: a model directory, a checkpoint, or a run directory (its latest valid
// checkpoint).
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/model_directory.h"
#include "model/config.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

struct OpenedModel {
  model::ModelConfig config;
  fs::path directory;  ///< the model directory or checkpoint itself; the tokenizer's files lie in
                       ///< it, if there are any
  bool checkpoint = false;            ///< which of the two it is
  std::vector<std::string> warnings;  ///< damaged checkpoints of a run that were passed over

  /// Fills `parameters`, which must have been made for `config`. Throws kData naming file and
  /// tensor.
  void load(model::Parameters& parameters) const;
};

/// Reads what MODEL is and its geometry. Throws kData naming what is missing or wrong.
OpenedModel open_model(const fs::path& path);

}  // namespace athanor::checkpoint
