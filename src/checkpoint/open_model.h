// MODEL on the command line: a model directory of either layout, a checkpoint, or a run directory (its latest valid
// checkpoint).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/weights.h"
#include "model/config.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

struct OpenedModel {
  model::ModelConfig config;
  fs::path directory;  ///< the model directory or checkpoint itself; the tokenizer's files lie in
                       ///< it, if there are any
  bool checkpoint = false;            ///< which of the two it is
  Layout layout = Layout::kNative;    ///< of a model directory
  std::vector<std::string> warnings;  ///< damaged checkpoints of a run that were passed over

  /// Fills `parameters`, which must have been made for `config`. Throws kData naming file and
  /// tensor.
  void load(model::Parameters& parameters) const;
};

/// Reads what MODEL is and its geometry. Throws kData naming what is missing or wrong.
OpenedModel open_model(const fs::path& path);

/// The weights and side files of an opened model, nothing of the weights read but their headers.
class OpenedWeights {
 public:
  explicit OpenedWeights(const OpenedModel& model);
  const WeightSource& source() const { return *source_; }
  /// The checkpoint that they belong to; null for a model directory.
  const Checkpoint* checkpoint() const { return checkpoint_.get(); }
  const std::vector<SideFile>& side_files() const { return side_files_; }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<WeightSource> source_;
  std::vector<SideFile> side_files_;
};

}  // namespace athanor::checkpoint
