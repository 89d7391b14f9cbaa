// What a training run has resident is what `athanor plan memory` says.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/allocations.h"
#include "support/program.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

/// Documents of words, enough to hold some out.
std::string text_of_many_documents() {
  std::string text;
  for (int document = 0; document < 100; ++document) {
    for (int word = 0; word < 150; ++word) {
      text += "word" + std::to_string((document * 7 + word * word) % 97) + " ";
    }
    text += "\n<|endoftext|>\n";
  }
  return text;
}

struct Memory {
  double planned = 0;
  double resident = 0;
};

/// The demo's model on bytes, a step, a validation and a checkpoint.
Memory memory_of(const ScratchFolder& folder, const std::string& name,
                 const std::vector<std::string>& settings) {
  std::vector<std::string> overrides;
  for (const std::string& setting : settings) {
    overrides.emplace_back("--set");
    overrides.push_back(setting);
  }
  for (const char* setting :
       {"run.time_budget_seconds=0", "model.vocab=258", "tokenizer.kind=bytes",
        "batch.micro_batch=8", "phases.0.sequence=384", "validation.interval_steps=1"}) {
    overrides.emplace_back("--set");
    overrides.emplace_back(setting);
  }
  const std::string config = std::string(ATHANOR_SOURCE_DIR) + "/configs/demo.toml";
  std::vector<std::string> plan{"plan", "memory", config, "--json"};
  plan.insert(plan.end(), overrides.begin(), overrides.end());
  const Outcome planned = athanor(plan);
  EXPECT_EQ(planned.code, 0) << planned.err;
  std::vector<std::string> train{"train",   config,
                                 "--data",  (folder / "text.txt").string(),
                                 "--out",   (folder / name).string(),
                                 "--steps", "1"};
  train.insert(train.end(), overrides.begin(), overrides.end());
  const Outcome run = athanor(train);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("validation loss"), std::string::npos) << run.err;
  return {nlohmann::json::parse(planned.out).at("total_bytes").get<double>(),
          static_cast<double>(run.peak_bytes)};
}

TEST(Memory, ATrainingRunHasResidentWhatThePlanSays) {
  if (!counts_allocations()) GTEST_SKIP() << "a sanitizer has memory of its own";
  const ScratchFolder folder;
  folder.write("text.txt", text_of_many_documents());
  const Memory whole = memory_of(folder, "whole", {"model.recompute=none"});
  const Memory less = memory_of(folder, "less", {"model.recompute=all"});
  const Memory adamw = memory_of(folder, "adamw", {"model.recompute=all", "optimizer.kind=adamw"});
  for (const Memory& memory : {whole, less, adamw}) {
    EXPECT_GT(memory.planned, 200 * kMiB);
    EXPECT_LE(std::abs(memory.resident - memory.planned), 0.03 * memory.planned + 64 * kMiB)
        << memory.planned / kMiB << " MiB planned, " << memory.resident / kMiB << " MiB resident";
  }
  // What recomputation saves, and what another optimizer keeps: what surrounds the arenas cancels.
  EXPECT_GT(whole.planned - less.planned, 100 * kMiB);
  for (const auto& [more, fewer] : {std::pair{whole, less}, {adamw, less}}) {
    const double planned = more.planned - fewer.planned;
    EXPECT_NEAR(more.resident - fewer.resident, planned, 0.03 * std::abs(planned) + 8 * kMiB);
  }
}

}  // namespace
}  // namespace athanor::test
