#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/verbs.h"
#include "train/train.h"

namespace athanor::cli {
namespace {

nlohmann::json to_json(const train::MemoryPlan& plan) {
  nlohmann::ordered_json arenas = nlohmann::ordered_json::array();
  for (const train::ArenaPlan& arena : plan.arenas) {
    arenas.push_back({{"name", arena.name}, {"bytes", arena.bytes}, {"holds", arena.holds}});
  }
  return {{"parameters", plan.parameters.total},
          {"active_parameters", plan.parameters.active_with_head},
          {"arenas", arenas},
          {"total_bytes", plan.total()}};
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* group = add_group(app, "plan", "Size a run before it starts");
  CLI::App* memory = add_verb(*group, "memory", "Print what a training run will take, to the byte",
                              "plan memory configs/zaya1-8b.toml");
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
    int64_t ranks = 1;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  memory->add_option("CONFIG", options->config, "TOML file that describes the run")->required();
  memory->add_option("--set", options->overrides, "Override a key of the config: section.key=value")
      ->take_all();
  add_number(*memory, "--ranks", options->ranks, "For each of so many ranks",
             {.least = 1, .most = 65536});
  add_json_flag(*memory, options->json);
  memory->callback([options] {
    const train::MemoryPlan plan = train::plan_memory_of(options->config, options->overrides,
                                                         static_cast<int>(options->ranks));
    if (options->json) {
      print_json(to_json(plan));
    } else {
      print(train::to_text(plan));
    }
  });
}

}  // namespace athanor::cli
