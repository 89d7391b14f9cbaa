// athanor train on many ranks, through the program, under every MPI that is here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/random.h"
#include "comm/lab.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using comm::test::available_mpis;
using comm::test::Command;
using comm::test::Mpi;

constexpr const char* kConfig = R"(
precision = "bf16"
seed = 3
[model]
layers = 2
hidden = 64
query_heads = 4
key_value_heads = 2
head_size = 16
experts = 4
expert_inner = 64
router = 32
[tokenizer]
kind = "bytes"
[batch]
sequences = 8
reduction_groups = 8
micro_batch = 1
[[phases]]
name = "train"
tokens = 6144
sequence = 64
learning_rate = 4e-3
[validation]
interval_steps = 4
[checkpoint]
interval_steps = 3
)";  // 12 steps

/// A folder with a config and a text, for runs that shall come to the same.
class RanksTest : public testing::Test {
 protected:
  void SetUp() override {
    if (available_mpis().empty()) GTEST_SKIP() << comm::test::kNoMpi;
    write(folder_ / "run.toml", kConfig);
    RandomStream random(5, 5);
    std::string text;
    for (int document = 0; document < 40; ++document) {
      for (int word = 0; word < 60; ++word) {
        text += std::string(1 + random.below(7), static_cast<char>('a' + random.below(20))) + " ";
      }
      text += "\n<|endoftext|>\n";
    }
    write(folder_ / "text.txt", text);
  }

  static void write(const fs::path& path, const std::string& content) {
    write_file_atomically(path, content);
  }

  std::vector<std::string> words(const Mpi& mpi, int ranks, const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all;
    if (ranks > 1) {
      all = mpi.launcher;
      all.insert(all.end(), {"-n", std::to_string(ranks)});
    }
    all.insert(all.end(), {ATHANOR_BINARY, "train", (folder_ / "run.toml").string(), "--data",
                           (folder_ / "text.txt").string(), "--out", (folder_ / out).string()});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// What a run came to, times and speeds apart.
  std::string outcome_of(const std::string& out) const {
    std::string all = read_file(folder_ / out / "model/model.safetensors");
    std::istringstream lines(read_file(folder_ / out / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto metrics = nlohmann::json::parse(line);
      for (const char* key :
           {"seconds", "tokens_per_second", "ceiling_share", "data_wait_seconds", "memory_bytes"}) {
        metrics.erase(key);
      }
      all += metrics.dump() + "\n";
    }
    return all;
  }

  /// Steps that a run has told of.
  int64_t steps_of(const std::string& out) const {
    const fs::path metrics = folder_ / out / "metrics.jsonl";
    if (!fs::exists(metrics)) return 0;
    const std::string lines = read_file(metrics);
    return std::count(lines.begin(), lines.end(), '\n');
  }

  void train(const Mpi& mpi, int ranks, const std::string& out,
             const std::vector<std::string>& more = {}) const {
    Command run(words(mpi, ranks, out, more), {"OMP_NUM_THREADS=1"});
    ASSERT_EQ(run.wait(std::chrono::seconds(120)), 0) << run.said();
  }

  const ScratchFolder folder_;
};

TEST_F(RanksTest, AnyNumberOfThemTrainsTheSameModel) {
  const Mpi& first = available_mpis().front();
  train(first, 1, "one");
  for (const Mpi& mpi : available_mpis()) {
    for (const int ranks : {2, 4, 8}) {
      const std::string out = mpi.name + std::to_string(ranks);
      train(mpi, ranks, out, {"--set", "comm.bucket_bytes=8192"});
      EXPECT_EQ(outcome_of(out), outcome_of("one")) << out;
    }
  }
}

TEST_F(RanksTest, ARunGoesOnWithAnyOtherNumber) {
  const Mpi& first = available_mpis().front();
  const Mpi& last = available_mpis().back();
  train(first, 1, "one");
  train(first, 4, "many", {"--steps", "4"});
  train(last, 2, "many", {"--steps", "5"});
  train(last, 1, "many", {"--steps", "8"});
  train(last, 8, "many");
  EXPECT_EQ(outcome_of("many"), outcome_of("one"));
  // Three share no power of two of groups: they go on rightly, if not by bit.
  train(first, 4, "three", {"--steps", "6"});
  train(last, 3, "three");
  EXPECT_TRUE(fs::exists(folder_ / "three/checkpoints/step-00000012/rank-00002.safetensors"));
  EXPECT_NE(outcome_of("three"), outcome_of("one"));
  EXPECT_TRUE(fs::exists(folder_ / "three/logs/rank-00002.log"));
}

TEST_F(RanksTest, ThoseThatDifferAreRefusedByName) {
  const Mpi& mpi = available_mpis().front();
  const auto refused = [&](const std::string& changes, const std::string& why) {
    // Rank 1 alone gets the change.
    std::vector<std::string> all = words(mpi, 2, "refused");
    const auto program = std::find(all.begin(), all.end(), ATHANOR_BINARY);
    std::string line = "case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in 1) " + changes + ";; esac; exec";
    for (auto word = program; word != all.end(); ++word) line += " " + *word;
    all.erase(program, all.end());
    all.insert(all.end(), {"sh", "-c", line + " $MORE"});
    Command run(all, {"OMP_NUM_THREADS=1"});
    EXPECT_EQ(run.wait(), 2) << run.said();
    const std::string err = run.err();
    EXPECT_NE(err.find("rank 1 has another " + why), std::string::npos) << err;
    EXPECT_EQ(err.find("athanor: "), err.rfind("athanor: ")) << "one line: " << err;
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
  };
  refused("MORE='--set optimizer.clip=7'", "config than rank 0: 'clip = 7.0' there, 'clip = 1.0'");
  refused("export ATHANOR_ISA=portable", "kernels than rank 0: 'portable' there");
}

TEST_F(RanksTest, FewerSequencesThanRanksAreRefused) {
  Command run(words(available_mpis().front(), 9, "nine"), {"OMP_NUM_THREADS=1"});
  EXPECT_EQ(run.wait(), 2) << run.said();
  EXPECT_NE(run.err().find("cannot be shared by 9 ranks"), std::string::npos) << run.said();
  EXPECT_FALSE(fs::exists(folder_ / "nine"));
}

/// Kills one of the run's workers, as the out-of-memory killer would; false when none was left.
bool kill_a_worker(const Command& run, RandomStream& random) {
  std::vector<pid_t> workers;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    try {
      const std::string environment = read_file(entry.path() / "environ");
      if (getsid(pid) == run.pid() && environment.find("ATHANOR_WORKER") != std::string::npos) {
        workers.push_back(pid);
      }
    } catch (const Error&) {
      continue;  // it has ended meanwhile
    }
  }
  if (workers.empty()) return false;
  return kill(workers[random.below(workers.size())], SIGKILL) == 0;
}

TEST_F(RanksTest, AfterTheDeathOfOneTheSameCommandGoesOnToTheSameModel) {
  const Mpi& first = available_mpis().front();
  const std::vector<std::string> longer = {"--set", "phases.0.tokens=40960"};  // 80 steps
  train(first, 1, "one", longer);
  const std::string wanted = outcome_of("one");
  RandomStream random(11, 4);
  const int deaths = std::getenv("ATHANOR_TEST_FULL") != nullptr ? 40 : 4;
  int killed = 0;
  for (int death = 0; death < deaths; ++death) {
    const Mpi& mpi = available_mpis()[static_cast<size_t>(death) % available_mpis().size()];
    const std::string out = "run" + std::to_string(death);
    {
      Command run(words(mpi, death % 2 == 0 ? 2 : 4, out, longer), {"OMP_NUM_THREADS=1"});
      const auto lines = static_cast<int64_t>(random.below(60));
      comm::test::eventually([&] { return !run.running() || steps_of(out) >= lines; });
      const bool hit = run.running() && kill_a_worker(run, random);
      const int code = run.wait();
      if (hit && code != 0) {
        ++killed;
        EXPECT_EQ(code, 4) << run.said();
        EXPECT_NE(run.err().find("was killed by SIGKILL in the "), std::string::npos) << run.said();
      }
    }
    train(mpi, 4, out, longer);
    EXPECT_EQ(outcome_of(out), wanted);
    fs::remove_all(folder_ / out);
  }
  EXPECT_GT(killed, 0);
}

}  // namespace
}  // namespace athanor::test
