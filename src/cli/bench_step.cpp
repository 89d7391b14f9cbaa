// athanor bench step: a training step, op by op.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/step_bench.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

nlohmann::json to_json(const advisor::StepReport& report) {
  nlohmann::json object = {{"tokens_per_second", report.tokens_per_second},
                           {"ceiling_share", report.ceiling_share},
                           {"step_seconds", report.step_seconds()},
                           {"useful_flops", report.useful_flops},
                           {"tokens", report.tokens},
                           {"sequence", report.sequence},
                           {"micro_batch", report.micro_batch},
                           {"steps", report.steps},
                           {"optimizer", report.optimizer},
                           {"routing", report.balanced_routing ? "balanced" : "natural"},
                           {"precision", report.precision},
                           {"kernels", ops::name_of(report.isa)},
                           {"threads", report.threads},
                           {"ceilings", ceilings_json(report.ceilings)}};
  add_ops(object, report.table);
  return object;
}

}  // namespace

void add_bench_step(CLI::App& group) {
  CLI::App* verb =
      add_verb(group, "step", "A training step op by op: time, FLOPs, bytes, share of the bound",
               "bench step configs/demo.toml --optimizer muon --routing natural --json");
  struct Options {
    advisor::StepBenchOptions bench;
    std::string config;
    std::string optimizer;
    std::string routing = "natural";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("CONFIG", options->config, "TOML file that describes a training run")
      ->required();
  verb->add_option("--optimizer", options->optimizer,
                   "adamw, muon, or none: forward and backward alone (default: the config's)")
      ->check(CLI::IsMember({"adamw", "muon", "none"}));
  verb->add_option("--routing", options->routing,
                   "natural: as the router chooses; balanced: equal loads for all experts")
      ->check(CLI::IsMember({"natural", "balanced"}))
      ->capture_default_str();
  add_number(*verb, "--steps", options->bench.steps, "Steps to measure, after one that warms up",
             {.least = 1});
  verb->add_option("--set", options->bench.overrides,
                   "Override a key of the config: section.key=value")
      ->take_all();
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    using advisor::StepOptimizer;
    advisor::StepBenchOptions& bench = options->bench;
    bench.config = options->config;
    bench.balanced_routing = options->routing == "balanced";
    if (options->optimizer == "adamw") bench.optimizer = StepOptimizer::kAdamW;
    if (options->optimizer == "muon") bench.optimizer = StepOptimizer::kMuon;
    if (options->optimizer == "none") bench.optimizer = StepOptimizer::kNone;
    const advisor::StepReport report = advisor::measure_step(bench);
    if (options->json) return print_json(to_json(report));
    print(advisor::to_text(report));
  });
}

}  // namespace athanor::cli
