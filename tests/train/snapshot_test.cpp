// What a checkpoint keeps of a run: every figure that the next step depends on.
#include "train/snapshot.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

/// Every number of parameters, biases and optimizers.
std::vector<float> state_of(const Workspace& w) {
  std::vector<float> all;
  const auto add = [&](const Tensor& t) {
    const float* values = t.as<float>();
    all.insert(all.end(), values, values + t.numel());
  };
  add(w.parameters.flat());
  add(w.parameters.balancing_biases());
  for (const optim::StateTensor& tensor : w.optimizer.state()) add(tensor.value);
  for (const optim::StateTensor& tensor : w.controller.state()) add(tensor.value);
  return all;
}

TEST(Snapshot, GivesBackEveryFigureOfTheRun) {
  const TemporaryFolder folder;
  RunDirectory directory(folder.path());
  Bench bench(config_with(1));
  for (int64_t step = 0; step < 3; ++step) bench.step(step);
  RunState state;
  state.step = 9;
  state.applied = 3;
  state.offset_phase = 2;
  state.sample_offset = 77;
  state.guard = {2, 41, 1.5, 0.25, 6, 4, 11};
  const fs::path path =
      save_snapshot(directory, bench.config, state, *bench.workspace, bench.workspace->geometry,
                    "these data", {}, bench.communicator);

  Bench fresh(config_with(1));
  ASSERT_NE(state_of(*fresh.workspace), state_of(*bench.workspace));
  const checkpoint::Checkpoint saved = checkpoint::Checkpoint::open(path);
  const RunState loaded = load_snapshot(saved, *fresh.workspace, "these data");
  EXPECT_EQ(loaded.step, 9);
  EXPECT_EQ(loaded.applied, 3);
  EXPECT_EQ(loaded.offset_phase, 2);
  EXPECT_EQ(loaded.sample_offset, 77u);
  EXPECT_EQ(loaded.guard.phase, 2);
  EXPECT_EQ(loaded.guard.good_steps, 41);
  EXPECT_EQ(loaded.guard.mean, 1.5);
  EXPECT_EQ(loaded.guard.variance, 0.25);
  EXPECT_EQ(loaded.guard.spikes, 6);
  EXPECT_EQ(loaded.guard.skips, 4);
  EXPECT_EQ(loaded.guard.skipped, 11);
  EXPECT_EQ(state_of(*fresh.workspace), state_of(*bench.workspace));
  EXPECT_THROW(load_snapshot(saved, *fresh.workspace, "other data"), Error);
}

/// As if a roll-back before this checkpoint had stepped over `samples` of phase 0.
void step_over(const fs::path& path, uint64_t samples) {
  checkpoint::Manifest manifest =
      checkpoint::parse_manifest(read(path / "manifest.json"), "manifest.json");
  auto cursor = nlohmann::json::parse(manifest.data_cursor);
  cursor["sample_offset"] = samples;
  manifest.data_cursor = cursor.dump();
  write(path / "manifest.json", checkpoint::manifest_text(manifest));
}

TEST(Snapshot, ARunGoesOnBehindTheSamplesThatARollBackSteppedOver) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  step_over(train(options).checkpoint, 16);
  options.steps = 6;
  const TrainReport report = train(options);
  train(lab.options("whole"));
  const auto lines = read_lines(lab.out("run") / "metrics.jsonl");
  const auto whole = read_lines(lab.out("whole") / "metrics.jsonl");
  EXPECT_NE(lines[4]["loss"], whole[4]["loss"]) << "other samples";
  EXPECT_EQ(lines[4]["epochs"], whole[6]["epochs"]) << "two batches further on";
  // The checkpoints that follow know of it too.
  const auto cursor =
      nlohmann::json::parse(checkpoint::Checkpoint::open(report.checkpoint).manifest().data_cursor);
  EXPECT_EQ(cursor["sample_offset"], 16);
  // Another phase would not: its samples count from its own first.
  EXPECT_EQ(cursor["offset_phase"], 0);
}

}  // namespace
}  // namespace athanor::train
