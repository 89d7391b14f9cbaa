// What a run is between two steps, and how checkpoints hold it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "train/config.h"
#include "train/divergence.h"
#include "train/run_directory.h"
#include "train/workspace.h"

namespace athanor::train {

/// Everything beside tensors that the next step depends on.
struct RunState {
  int64_t step = 0;     ///< steps done
  int64_t applied = 0;  ///< of them, those that changed the model
  DivergenceGuard::State guard;
  /// Samples that roll-backs stepped over, in the phase in which they did.
  int offset_phase = 0;
  uint64_t sample_offset = 0;

  uint64_t offset_in(int phase) const { return phase == offset_phase ? sample_offset : 0; }
};

/// Saves `state` and the workspace as checkpoints/step-%08d; every rank writes what it owns, all at once, and an Error of one
/// is that of all. `model` is the geometry with the ids and rotary base that its
/// config.json shall carry.
fs::path save_snapshot(RunDirectory& directory, const Config& config, const RunState& state,
                       const Workspace& workspace, const model::ModelConfig& model,
                       const std::string& data_identity,
                       std::span<const checkpoint::SideFile> side_files,
                       comm::Communicator& communicator);

/// Fills the workspace from a checkpoint. Throws kData when a tensor or a key is missing, or when the run's data are not
/// those of `data_identity`.
RunState load_snapshot(const checkpoint::Checkpoint& checkpoint, Workspace& workspace,
                       const std::string& data_identity);

/// Fills the optimizers' state from the checkpoint of another run. Returns the steps that made it, which the bias corrections
/// go on from. Throws kData when a tensor is missing.
int64_t load_optimizer_state(const checkpoint::Checkpoint& checkpoint, Workspace& workspace);

}  // namespace athanor::train
