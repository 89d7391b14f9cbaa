// athanor bench memory: what memory gives this machine's cores.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/memory_rate.h"
#include "base/memory.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

void run(double seconds, bool json) {
  const advisor::MemoryRates result = advisor::measure_memory_rates(seconds);
  if (json) {
    nlohmann::json object = {{"kernels", ops::name_of(result.isa)},
                             {"threads", result.threads},
                             {"bytes", result.bytes},
                             {"rounds", result.rounds}};
    for (const advisor::MemoryRate& rate : result.rates) {
      object[std::string(ops::name_of(rate.access))] = {
          {"one_thread_bytes_per_second", rate.one_thread},
          {"all_threads_bytes_per_second", rate.all_threads}};
    }
    return print_json(object);
  }
  print(fmt::format("{} of memory, medians of {} rounds, GB/s\n", size_text(result.bytes),
                    result.rounds));
  print(fmt::format("{:<18}{:>14}{:>12}{:>3}\n", "", "one thread", "threads:", result.threads));
  for (const advisor::MemoryRate& rate : result.rates) {
    print(fmt::format("{:<18}{:>14.1f}{:>15.1f}\n", ops::name_of(rate.access),
                      rate.one_thread / 1e9, rate.all_threads / 1e9));
  }
}

}  // namespace

void add_bench_memory(CLI::App& group) {
  CLI::App* verb = add_verb(group, "memory", "Reading, writing and copying memory, interleaved",
                            "bench memory --seconds 10 --json");
  struct Options {
    double seconds = 5;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  add_number(*verb, "--seconds", options->seconds, "About how long to measure",
             {.least = 0, .above = true});
  add_json_flag(*verb, options->json);
  verb->callback([options] { run(options->seconds, options->json); });
}

}  // namespace athanor::cli
