#include "checkpoint/open_model.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint.h"

namespace athanor::checkpoint {
namespace {

OpenedModel of_checkpoint(const Checkpoint& checkpoint) {
  return {checkpoint.config(), checkpoint.path(), /*checkpoint=*/true, Layout::kNative, {}};
}

// A run directory: its newest checkpoint that verifies.
OpenedModel of_run(const fs::path& run, const fs::path& folder) {
  const LatestCheckpoint latest = latest_valid(folder);
  if (!latest.checkpoint) {
    throw data_error(latest.damaged.empty()
                         ? folder.string() + ": no checkpoint in it yet"
                         : fmt::format("{}: no checkpoint of this run is whole: {}", run.string(),
                                       latest.damaged.front().reason));
  }
  OpenedModel model = of_checkpoint(*latest.checkpoint);
  for (const DamagedCheckpoint& damaged : latest.damaged) {
    model.warnings.push_back(
        fmt::format("{}; using {}", damaged.reason, model.directory.filename().string()));
  }
  return model;
}

}  // namespace

void OpenedModel::load(model::Parameters& parameters) const {
  if (checkpoint) {
    Checkpoint::open(directory).load(parameters);
  } else {
    checkpoint::load(DirectoryWeights(directory, parameters.config(), layout), parameters);
  }
}

OpenedWeights::OpenedWeights(const OpenedModel& model) {
  if (model.checkpoint) {
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(model.directory));
    source_ = std::make_unique<CheckpointWeights>(*checkpoint_, model.config);
    side_files_ = checkpoint_->side_files();
  } else {
    source_ = std::make_unique<DirectoryWeights>(model.directory, model.config, model.layout);
    side_files_ = read_side_files(model.directory);
  }
}

OpenedModel open_model(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw data_error(path.string() + ": no such model directory or checkpoint");
  }
  if (error) throw system_error(error.value(), "read", path.string(), ExitCode::kData);
  if (!fs::is_directory(status)) {
    throw data_error(path.string() +
                     ": not a directory; a model directory, a checkpoint or a run is wanted");
  }
  if (is_checkpoint(path)) return of_checkpoint(Checkpoint::open(path));
  if (fs::is_directory(path / "checkpoints")) return of_run(path, path / "checkpoints");
  if (!fs::exists(path / "config.json")) {
    throw data_error(path.string() +
                     ": neither config.json nor manifest.json in it: not a model directory and not "
                     "a checkpoint");
  }
  return {read_model_config(path), path, /*checkpoint=*/false, read_layout(path), {}};
}

}  // namespace athanor::checkpoint
