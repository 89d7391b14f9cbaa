// The training loop: steps, validation, checkpoints, and every way in which a run ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "data/loader.h"
#include "train/config.h"
#include "train/divergence.h"
#include "train/memory_plan.h"
#include "train/metrics.h"
#include "train/phases.h"
#include "train/prepare.h"
#include "train/rank_watch.h"
#include "train/run_directory.h"
#include "train/signals.h"
#include "train/snapshot.h"
#include "train/step.h"
#include "train/stopwatch.h"
#include "train/tensorboard.h"
#include "train/validation.h"
#include "train/workspace.h"

namespace athanor::train {

/// A run in memory: built once, then begun or resumed, then run. The config must be resolved.
class Trainer {
 public:
  /// One of the communicator's ranks; the directory is one that follows on all but the first.
  Trainer(Config config, RunDirectory& directory, PreparedData data, const StopSignals& signals,
          comm::Communicator& communicator);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Steps of the whole run.
  int64_t steps() const { return plan_.steps(); }
  const RunState& state() const { return state_; }
  const Config& config() const { return config_; }

  /// Begins at step 0: from the seed, or from the weights of run.init. With a time budget the phases' tokens are fitted to it
  /// first, on weights that are then drawn anew.
  void begin();
  /// Goes on from a checkpoint of this run.
  void resume(const checkpoint::Checkpoint& checkpoint);

  /// Runs until `stop` steps, or all, are done and saves. Throws kStopped after a signal (saved), kNumbers on divergence, and
  /// kResources when the last save or the logs fail; in each case the last checkpoint stands.
  void run(std::optional<int64_t> stop);

  /// Writes the model directory OUT/model, tokenizer included.
  fs::path export_model();

 private:
  void measure_ceiling();
  /// Slower kernels than the machine has are an event, once each.
  void report_fallbacks();
  void fit_budget();
  void draw_weights();
  /// After a step that took so long, checkpoints and all: the last phase gets longer or shorter where a budget asks for it.
  void keep_budget(double step_seconds);
  int64_t target(std::optional<int64_t> stop) const;
  StepMetrics train_step(const StepPlan& plan);
  /// An error that all ranks throw: the first one has the words.
  Error common(const Error& error) const;
  /// Rank 0's clock, on all ranks: what is decided by time is decided alike.
  double leaders(double seconds);
  /// True on all ranks once a signal has reached one of them.
  bool stop_requested();
  Place place() const { return {communicator_.rank(), communicator_.size()}; }
  void validate(StepMetrics& metrics, bool report);
  /// Saves; a failure is an event when there will be another chance, else it is thrown.
  void save(bool last);
  void roll_back(const std::string& reason);
  /// Compares the ranks where that is due; false when the run went back to replay what differs.
  bool ranks_agree();
  std::string standing() const;
  model::ModelConfig model_with(double theta) const;

  Config config_;
  RunDirectory& directory_;
  PreparedData data_;
  const StopSignals& signals_;
  RunPlan plan_;
  data::Loader loader_;
  Validation validation_;
  comm::Communicator& communicator_;
  Arenas arenas_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<StepRunner> runner_;
  std::optional<ops::Context> ctx_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::vector<checkpoint::SideFile> side_files_;
  DivergenceGuard guard_;
  RankWatch watch_;
  RunState state_;
  double ceiling_flops_ = 0;
  std::optional<Stopwatch> budget_clock_;  ///< while this process keeps a time budget
  double seconds_per_step_ = 0;            ///< lately
  double ending_seconds_ = 0;              ///< what the last save, validation and export will take
  int64_t saved_step_ = -1;  ///< of the newest checkpoint written or read by this process
  int roll_backs_ = 0;
  size_t fallbacks_reported_ = 0;
};

}  // namespace athanor::train
