// That a crash of the machine never leaves a checkpoint that knows of more than the run's other files.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "support/file_calls.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TEST(Durability, MetricsAndEventsAreOnTheDiskBeforeTheCheckpointThatFollowsThem) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 8;
  const test::FileCalls calls;
  train(options);
  size_t before = 0;
  for (const int64_t step : {4, 8}) {
    const size_t saved =
        calls.rename_to(lab.out("run") / "checkpoints" / checkpoint::checkpoint_name(step));
    ASSERT_LT(saved, calls.all().size()) << calls.text();
    for (const char* log : {"metrics.jsonl", "events.jsonl"}) {
      EXPECT_TRUE(calls.synced(lab.out("run") / log, before, saved)) << log << " at " << step;
    }
    before = saved;
  }
}

TEST(Durability, ARunThatIsSetAsideStaysAside) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  train(options);
  options.resume = "none";
  const test::FileCalls calls;
  train(options);
  const fs::path aside = lab.out("run") / "previous-001";
  for (const char* name : {"metrics.jsonl", "events.jsonl", "checkpoints", "config.toml"}) {
    const size_t moved = calls.rename_to(aside / name);
    ASSERT_LT(moved, calls.all().size()) << name << "\n" << calls.text();
    EXPECT_TRUE(calls.synced(aside, moved, calls.all().size())) << name << "\n" << calls.text();
  }
}

}  // namespace
}  // namespace athanor::train
