// athanor bench gemm: how fast this machine multiplies matrices, against its own ceiling.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/matrix_rate.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

struct Options {
  int64_t size = 2048;
  double seconds = 5;
  bool json = false;
};

const char* short_name(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "fp32"; }

void run(const Options& options) {
  const advisor::MatrixRates result = advisor::measure_matrix_rates(options.size, options.seconds);
  if (options.json) {
    nlohmann::json object = {{"kernels", ops::name_of(result.isa)},
                             {"threads", result.threads},
                             {"size", result.size},
                             {"rounds", result.rounds}};
    for (const advisor::MatrixRate& rate : result.rates) {
      object[short_name(rate.dtype)] = {{"register_flops", rate.register_flops},
                                        {"cache_flops", rate.cache_flops},
                                        {"product_flops", rate.product_flops},
                                        {"share_of_ceiling", rate.share()}};
    }
    return print_json(object);
  }
  print(fmt::format("kernels {}, {} threads, medians of {} rounds, GFLOP/s\n",
                    ops::name_of(result.isa), result.threads, result.rounds));
  print(fmt::format("{:<6}{:>20}{:>16}{:>12} cubed{:>18}\n", "", "ceiling, registers", "from cache",
                    result.size, "share of ceiling"));
  for (const advisor::MatrixRate& rate : result.rates) {
    print(fmt::format("{:<6}{:>20.1f}{:>16.1f}{:>18.1f}{:>16.0f} %\n", short_name(rate.dtype),
                      rate.register_flops / 1e9, rate.cache_flops / 1e9, rate.product_flops / 1e9,
                      100 * rate.share()));
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* group = add_group(app, "bench", "Measure this machine against its own ceiling");
  CLI::App* verb = add_verb(*group, "gemm", "Matrix products in bf16 and fp32, interleaved",
                            "bench gemm --seconds 10 --json");
  auto options = std::make_shared<Options>();
  add_number(*verb, "--size", options->size, "Rows, columns and depth of the product");
  verb->add_option("--seconds", options->seconds, "About how long to measure")
      ->capture_default_str();
  add_json_flag(*verb, options->json);
  verb->callback([options] { run(*options); });
}

}  // namespace athanor::cli
