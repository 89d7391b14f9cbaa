// What goes wrong in a run: signals, kills, damage, full disks, foreign directories, bad data, bad numbers.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "support/small_disk.h"
#include "train/lab.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

ExitCode refused(const TrainOptions& options, const std::string& part) {
  try {
    train(options);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
    return error.code();
  }
  ADD_FAILURE() << "accepted; expected: " << part;
  return ExitCode::kDone;
}

bool has_event(const fs::path& run, const std::string& name) {
  const auto names = event_names(run);
  return std::find(names.begin(), names.end(), name) != names.end();
}

void flip_byte(const fs::path& path, int64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(-from_end, std::ios::end);
  file.put(byte);
}

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, EndTheRunInOrderAndItGoesOnByBit) {
  const Lab lab;
  const std::vector<std::string> longer = {"phases.0.tokens=51200"};  // 200 steps
  Child child(lab.options("run", longer));
  wait_for_steps(lab.out("run"), 3, child);
  child.signal(GetParam());
  // A terminal that closes may send SIGHUP twice: once itself, once through the shell.
  while (GetParam() == SIGHUP && child.running()) {
    child.signal(SIGHUP);
    usleep(1'000);
  }
  EXPECT_EQ(child.wait(), static_cast<int>(ExitCode::kStopped)) << child.errors;
  EXPECT_TRUE(has_event(lab.out("run"), "stopped by signal"));
  const auto steps = read_lines(lab.out("run") / "metrics.jsonl").size();
  ASSERT_LT(steps, 200u);
  char name[32];
  snprintf(name, sizeof name, "step-%08zu", steps);
  EXPECT_TRUE(fs::exists(lab.out("run") / "checkpoints" / name / "manifest.json"))
      << "saved at the step it stopped at: " << name;

  TrainOptions options = lab.options("run", longer);
  TrainOptions whole = lab.options("whole", longer);
  options.steps = whole.steps = static_cast<int64_t>(steps) + 6;
  EXPECT_EQ(fingerprint(train(options).checkpoint), fingerprint(train(whole).checkpoint));
  EXPECT_EQ(steady_metrics(lab.out("run")), steady_metrics(lab.out("whole")));
}

INSTANTIATE_TEST_SUITE_P(TermIntHup, Signals, ::testing::Values(SIGTERM, SIGINT, SIGHUP));

TEST(Faults, UnderNohupARunOutlivesItsTerminal) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"phases.0.tokens=51200"});
  options.steps = 40;
  const auto before = std::signal(SIGHUP, SIG_IGN);  // as nohup does; the child inherits it
  Child child(options);
  std::signal(SIGHUP, before);
  wait_for_steps(lab.out("run"), 3, child);
  child.signal(SIGHUP);
  EXPECT_EQ(child.wait(), 0) << child.errors;
  EXPECT_EQ(read_lines(lab.out("run") / "metrics.jsonl").size(), 40u);
}

TEST(Faults, KilledAtAnyMomentARunGoesOnAsIfNothingHadBeen) {
  const Lab lab;
  const std::vector<std::string> longer = {"phases.0.tokens=12288",  // 48 steps
                                           "checkpoint.interval_steps=5"};
  const TrainReport whole = train(lab.options("whole", longer));
  const TrainOptions options = lab.options("run", longer);
  RandomStream moments(static_cast<uint64_t>(getpid()), 1);
  RecordProperty("seed", getpid());
  int kills = 0;
  int code = -1;
  for (; kills < 20 && code != 0; ++kills) {
    Child child(options);
    // From the very start (packing) to a few steps past the next checkpoint.
    const auto until = static_cast<int64_t>(moments.below(700'000)) + 5'000;
    for (int64_t waited = 0; waited < until && child.running(); waited += 2'000) usleep(2'000);
    child.signal(SIGKILL);
    code = child.wait();
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << child.errors;
  }
  if (code != 0) code = run_child(options);
  ASSERT_EQ(code, 0);
  EXPECT_EQ(fingerprint(lab.out("run") / "checkpoints" / "step-00000048"),
            fingerprint(whole.checkpoint))
      << "after " << kills << " kills, seed " << getpid();
  EXPECT_EQ(steady_metrics(lab.out("run")), steady_metrics(whole.directory));
}

TEST(Faults, ADamagedCheckpointIsNamedAndTheOneBeforeItUsed) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 8;
  train(options);
  const fs::path newest = lab.out("run") / "checkpoints" / "step-00000008";
  flip_byte(newest / "rank-00000.safetensors", 40);
  options.steps.reset();
  const TrainReport report = train(options);
  EXPECT_EQ(report.step, 12);
  const auto events = read_lines(lab.out("run") / "events.jsonl");
  const auto damaged = std::find_if(events.begin(), events.end(), [](const auto& event) {
    return event["event"] == "checkpoint damaged";
  });
  ASSERT_NE(damaged, events.end());
  EXPECT_NE((*damaged)["reason"].get<std::string>().find("rank-00000.safetensors"),
            std::string::npos);
  const auto resumed = std::find_if(events.begin(), events.end(),
                                    [](const auto& event) { return event["event"] == "resumed"; });
  EXPECT_EQ((*resumed)["step"], 4);
  const auto cut = std::find_if(events.begin(), events.end(),
                                [](const auto& event) { return event["event"] == "metrics cut"; });
  ASSERT_NE(cut, events.end());
  EXPECT_EQ((*cut)["lines"].size(), 4u);
  EXPECT_EQ(fingerprint(report.checkpoint), fingerprint(train(lab.options("whole")).checkpoint));
  EXPECT_EQ(steady_metrics(lab.out("run")), steady_metrics(lab.out("whole")));
}

TEST(Faults, WithoutAWholeCheckpointARunIsRefusedAndStartsOverWhenAsked) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  train(options);
  flip_byte(lab.out("run") / "checkpoints" / "step-00000004" / "manifest.json", 200);
  EXPECT_EQ(refused(options, "step-00000004"), ExitCode::kData);
  options.resume = "none";
  EXPECT_EQ(train(options).step, 4);
  EXPECT_TRUE(fs::exists(lab.out("run") / "previous-001" / "metrics.jsonl")) << "nothing is lost";
}

TEST(Faults, ResumeFromANamedCheckpoint) {
  const Lab lab;
  const TrainReport whole = train(lab.options("run"));
  const auto before = fingerprint(whole.checkpoint);
  TrainOptions options = lab.options("run");
  options.resume = (lab.out("run") / "checkpoints" / "step-00000008").string();
  EXPECT_EQ(fingerprint(train(options).checkpoint), before);
  EXPECT_EQ(steady_metrics(lab.out("run")).size(), 12u);
  EXPECT_TRUE(fs::exists(options.resume)) << "what the run went on from is no abandoned one";
  EXPECT_TRUE(fs::exists(lab.out("run") / "checkpoints" / "abandoned-step-00000012"));
}

TEST(Faults, ADamagedCheckpointThatIsNamedIsRefusedBeforeAnythingIsCut) {
  const Lab lab;
  train(lab.options("run"));
  TrainOptions options = lab.options("run");
  options.resume = (lab.out("run") / "checkpoints" / "step-00000008").string();
  flip_byte(fs::path(options.resume) / "rank-00000.safetensors", 40);
  EXPECT_EQ(refused(options, "rank-00000.safetensors"), ExitCode::kData);
  EXPECT_EQ(read_lines(lab.out("run") / "metrics.jsonl").size(), 12u);
  EXPECT_TRUE(fs::exists(lab.out("run") / "checkpoints" / "step-00000012"));
}

TEST(Faults, AVocabularySmallerThanTheTokenizers) {
  const Lab lab;
  EXPECT_EQ(refused(lab.options("run", {"model.vocab=257"}), "model.vocab"), ExitCode::kUsage);
}

TEST(Faults, TwoRunsOnOneDirectory) {
  const Lab lab;
  Child first(lab.options("run", {"phases.0.tokens=51200"}));
  wait_for_steps(lab.out("run"), 1, first);
  EXPECT_EQ(refused(lab.options("run", {"phases.0.tokens=51200"}), "in use"), ExitCode::kUsage);
  EXPECT_TRUE(first.running());
}

TEST(Faults, ADirectoryOfAnotherConfigOrOfOtherThings) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 4;
  train(options);
  const std::string config = read(lab.out("run") / "config.toml");
  options.overrides = {"model.hidden=64"};
  EXPECT_EQ(refused(options, "model.hidden"), ExitCode::kUsage);
  EXPECT_EQ(read(lab.out("run") / "config.toml"), config);

  fs::create_directory(lab.out("foreign"));
  write(lab.out("foreign") / "thesis.tex", "years of work");
  EXPECT_EQ(refused(lab.options("foreign"), "no run"), ExitCode::kUsage);
  EXPECT_EQ(read(lab.out("foreign") / "thesis.tex"), "years of work");
}

TEST(Faults, AnUnwritableDirectory) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.out = lab.folder / "text.txt";  // a file: no folder for anyone
  EXPECT_EQ(refused(options, "text.txt"), ExitCode::kUsage);
  options.out = "/proc/athanor";
  EXPECT_EQ(refused(options, "/proc/athanor"), ExitCode::kUsage);
}

TEST(Faults, DataThatCannotBeRead) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  fs::create_directory(lab.folder / "empty");
  options.data = (lab.folder / "empty").string();
  EXPECT_EQ(refused(options, "empty"), ExitCode::kData);
  write(lab.folder / "bad.txt", "good so far \xff\xfe bad");
  options.data = (lab.folder / "bad.txt").string();
  EXPECT_EQ(refused(options, "bad.txt"), ExitCode::kData);
  write(lab.folder / "zero.txt", "");
  options.data = (lab.folder / "zero.txt").string();
  EXPECT_EQ(refused(options, "zero.txt: there is no text"), ExitCode::kData);
  std::string errors;
  EXPECT_EQ(run_child(options, &errors), static_cast<int>(ExitCode::kData));
  EXPECT_EQ(errors.find("warning:"), std::string::npos) << "one clear line: " << errors;
  EXPECT_EQ(errors.find("info:"), std::string::npos) << errors;
  options.data = (lab.folder / "nowhere").string();
  EXPECT_EQ(refused(options, "nowhere"), ExitCode::kData);
  options.data.reset();
  EXPECT_EQ(refused(options, "--data"), ExitCode::kUsage);
  EXPECT_FALSE(fs::exists(lab.out("run"))) << "a folder was left behind";
  // What failed before any step leaves the folder free for another try, with another config too.
  options = lab.options("run", {"model.hidden=16"});
  EXPECT_EQ(train(options).step, 12);
}

TEST(Faults, MoreSequenceThanData) {
  const Lab lab;
  EXPECT_EQ(
      refused(lab.options("run", {"phases.0.sequence=100000", "batch.micro_batch=1"}), "tokens"),
      ExitCode::kUsage);
}

TEST(Faults, DamagedShards) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 2;
  train(options);
  flip_byte(lab.out("run") / "shards" / "shard-00000.bin", 30);
  options.steps.reset();
  EXPECT_EQ(refused(options, "shard-00000.bin"), ExitCode::kData);
}

TEST(Faults, OtherDataThanTheRunBeganWith) {
  const Lab lab;
  TrainOptions options = lab.options("run");
  options.steps = 2;
  train(options);
  write(lab.folder / "other.txt", make_text(40, 8));
  TrainOptions other = lab.options("other");
  other.data = (lab.folder / "other.txt").string();
  other.steps = 1;
  train(other);
  options.data = (lab.out("other") / "shards").string();
  options.steps.reset();
  EXPECT_EQ(refused(options, "other data"), ExitCode::kData);
}

TEST(Faults, NumbersThatGoBadStopTheRunAndTheGoodCheckpointStays) {
  const Lab lab;
  // A learning rate that throws the weights to infinity once the warm-up is over.
  const std::vector<std::string> wild = {"phases.0.tokens=25600",         "phases.0.warmup_steps=0",
                                         "phases.0.schedule=constant",    "faults.skip_limit=3",
                                         "checkpoint.interval_steps=100", "optimizer.clip=0",
                                         "phases.0.learning_rate=0.01"};
  TrainOptions options = lab.options("run", wild);
  options.steps = 4;
  train(options);
  const auto good = fingerprint(lab.out("run") / "checkpoints" / "step-00000004");
  options.steps.reset();
  options.overrides.back() = "phases.0.learning_rate=100";
  options.overrides.emplace_back("optimizer.weight_decay=10");
  EXPECT_EQ(refused(options, "step-00000004"), ExitCode::kNumbers);
  EXPECT_TRUE(has_event(lab.out("run"), "diverged"));
  EXPECT_EQ(fingerprint(lab.out("run") / "checkpoints" / "step-00000004"), good);
}

TEST(Faults, RollBackGoesOnPastTheDataThatDidIt) {
  const Lab lab;
  const std::vector<std::string> wild = {
      "phases.0.tokens=25600",         "phases.0.warmup_steps=0",
      "phases.0.schedule=constant",    "faults.skip_limit=3",
      "checkpoint.interval_steps=100", "optimizer.clip=0",
      "faults.on_divergence=rollback", "optimizer.weight_decay=10",
      "phases.0.learning_rate=0.01"};
  TrainOptions options = lab.options("run", wild);
  options.steps = 4;
  train(options);
  options.steps.reset();
  options.overrides.back() = "phases.0.learning_rate=100";
  EXPECT_EQ(refused(options, "roll-backs"), ExitCode::kNumbers) << "it diverges again and again";
  int64_t offset = 0;
  int rolled_back = 0;
  for (const auto& event : read_lines(lab.out("run") / "events.jsonl")) {
    if (event["event"] != "rolled back") continue;
    ++rolled_back;
    EXPECT_EQ(event["step"], 4);
    EXPECT_GT(event["samples_stepped_over"], offset) << "each try reads data further on";
    offset = event["samples_stepped_over"];
  }
  EXPECT_EQ(rolled_back, 3);
}

TEST(Faults, SkippedStepsAreCountedAndNothingIsSavedOverGoodCheckpoints) {
  const Lab lab;
  // From some step on no gradient is finite, and the run is told to bear it.
  TrainOptions options = lab.options(
      "run", {"phases.0.tokens=25600", "phases.0.warmup_steps=0", "phases.0.schedule=constant",
              "faults.skip_limit=1000", "faults.spike_sigma=0", "checkpoint.interval_steps=1",
              "checkpoint.keep=1", "optimizer.clip=0", "optimizer.weight_decay=10",
              "validation.interval_steps=0", "phases.0.learning_rate=100"});
  options.steps = 20;
  train(options);
  int64_t applied = 0, last_good = 0;
  for (const auto& line : read_lines(lab.out("run") / "metrics.jsonl")) {
    const int64_t step = line["step"];
    if (line["applied"]) {
      ++applied;
      last_good = step;
    }
    EXPECT_EQ(line["skipped_steps"], step - applied) << step;
  }
  ASSERT_EQ(last_good, applied) << "once bad it stays bad: nothing changes any more";
  ASSERT_GT(applied, 0);
  ASSERT_LT(applied, 19);
  // The last good one, and the one with which the run ends.
  std::set<std::string> saved;
  for (const auto& entry : fs::directory_iterator(lab.out("run") / "checkpoints")) {
    saved.insert(entry.path().filename().string());
  }
  EXPECT_EQ(saved, (std::set<std::string>{checkpoint::checkpoint_name(last_good),
                                          checkpoint::checkpoint_name(20)}));
  const auto applied_steps = [&](int64_t step) {
    const fs::path path = lab.out("run") / "checkpoints" / checkpoint::checkpoint_name(step);
    const auto state = nlohmann::json::parse(checkpoint::Checkpoint::open(path).manifest().state);
    return state["applied_steps"].get<int64_t>();
  };
  EXPECT_EQ(applied_steps(20), applied);
  options.steps = 22;
  train(options);
  EXPECT_EQ(applied_steps(22), applied) << "a resumed run counts on from what it had applied";
}

TEST(Faults, AFullDiskEndsWithItsCodeAndTheRunGoesOnOnceThereIsRoom) {
  const Lab lab;
  test::SmallDisk disk(4 << 20);
  if (!disk.mounted()) GTEST_SKIP() << test::kFullDiskNotTried;
  TrainOptions options = lab.options("run");
  options.out = disk.path() / "run";
  options.steps = 4;
  train(options);
  // Fill what is left but for a few kilobytes: metrics still fit, a checkpoint does not.
  {
    std::ofstream filler(disk.path() / "filler", std::ios::binary);
    const fs::space_info space = fs::space(disk.path());
    ASSERT_GT(space.available, 40'960u);
    filler << std::string(space.available - 40'960, 'x');
  }
  options.steps.reset();
  EXPECT_EQ(refused(options, "step-00000004"), ExitCode::kResources);
  EXPECT_TRUE(has_event(options.out, "checkpoint failed")) << "the periodic save of step 8";
  fs::remove(disk.path() / "filler");
  const TrainReport report = train(options);
  EXPECT_EQ(fingerprint(report.checkpoint), fingerprint(train(lab.options("whole")).checkpoint));
  EXPECT_EQ(steady_metrics(options.out), steady_metrics(lab.out("whole")));
}

TEST(Faults, AnOldCheckpointThatCannotBeRemovedIsAnEvent) {
  const Lab lab;
  TrainOptions options = lab.options("run", {"checkpoint.keep=1"});
  options.steps = 4;
  const fs::path old = train(options).checkpoint;
  // What is mounted can be read but not renamed.
  if (mount(old.c_str(), old.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "A REMOVAL THAT FAILS NOT TRIED: mounting needs root";
  }
  options.steps.reset();
  EXPECT_EQ(train(options).step, 12);
  EXPECT_TRUE(has_event(lab.out("run"), "checkpoints not removed"));
  EXPECT_FALSE(has_event(lab.out("run"), "checkpoint failed"));
  umount2(old.c_str(), MNT_DETACH);
}

TEST(Faults, ADiskThatIsFullToTheLastByte) {
  const Lab lab;
  test::SmallDisk disk(4 << 20);
  if (!disk.mounted()) GTEST_SKIP() << test::kFullDiskNotTried;
  TrainOptions options = lab.options("run");
  options.out = disk.path() / "run";
  options.steps = 4;
  train(options);
  std::ofstream filler(disk.path() / "filler", std::ios::binary);
  while (filler << std::string(512, 'x') && filler.flush()) {
  }
  filler.close();
  options.steps.reset();
  EXPECT_EQ(refused(options, "No space left"), ExitCode::kResources);
  fs::remove(disk.path() / "filler");
  EXPECT_EQ(train(options).step, 12);
}

}  // namespace
}  // namespace athanor::train
