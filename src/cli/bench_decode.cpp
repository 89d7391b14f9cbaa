// athanor bench decode: generation, op by op.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/decode_bench.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "infer/session.h"

namespace athanor::cli {
namespace {

nlohmann::json to_json(const advisor::DecodeFigures& figures) {
  nlohmann::json object = {{"tokens", figures.tokens},
                           {"batch", figures.sequences},
                           {"context", figures.context},
                           {"tokens_per_second", figures.tokens_per_second},
                           {"seconds", figures.table.seconds}};
  add_ops(object, figures.table);
  return object;
}

nlohmann::json to_json(const advisor::DecodeReport& report) {
  nlohmann::json object = {{"tokens_per_second", report.decode.front().tokens_per_second},
                           {"active_weight_bytes", report.active_weight_bytes},
                           {"bound_tokens_per_second", report.bound_tokens_per_second},
                           {"share_of_bound", report.bound_share},
                           {"precision", report.precision},
                           {"random_weights", report.random_weights},
                           {"rounds", report.rounds},
                           {"kernels", ops::name_of(report.isa)},
                           {"threads", report.threads},
                           {"ceilings", ceilings_json(report.ceilings)}};
  for (const advisor::DecodeFigures& f : report.prefill) object["prefill"].push_back(to_json(f));
  for (const advisor::DecodeFigures& f : report.decode) object["decode"].push_back(to_json(f));
  return object;
}

}  // namespace

void add_bench_decode(CLI::App& group) {
  CLI::App* verb =
      add_verb(group, "decode", "Generation op by op: prompts, and one token after another",
               "bench decode configs/small.toml --json");
  struct Options {
    advisor::DecodeBenchOptions bench;
    std::string model;
    std::string precision = "bf16";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->model,
                   "Model directory, checkpoint or run; or a training config (.toml), whose "
                   "geometry gets random weights")
      ->required();
  verb->add_option("--set", options->bench.overrides,
                   "Override a key of the config: section.key=value")
      ->take_all();
  add_precision(*verb, options->precision);
  add_number(*verb, "--rounds", options->bench.rounds, "Rounds to measure, after one that warms up",
             {.least = 1});
  add_number(*verb, "--tokens", options->bench.tokens, "Tokens decoded in each round",
             {.least = 1});
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    options->bench.model = options->model;
    options->bench.precision = infer::parse_precision(options->precision);
    const advisor::DecodeReport report = advisor::measure_decode(options->bench);
    if (options->json) return print_json(to_json(report));
    print(advisor::to_text(report));
  });
}

}  // namespace athanor::cli
