// athanor bench gemm: how fast this machine multiplies matrices, against its own ceiling.
#include "cli/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/matrix_rate.h"
#include "base/counted.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

struct Options {
  int64_t size = 2048;
  double seconds = 5;
  bool peers = false;
  bool json = false;
};

const char* short_name(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "fp32"; }

void run(const Options& options) {
  const advisor::MatrixRates result =
      advisor::measure_matrix_rates(options.size, options.seconds, options.peers);
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
      if (result.peer.empty()) continue;
      object[short_name(rate.dtype)]["peers"][result.peer] = {{"product_flops", rate.peer_flops},
                                                              {"ratio", rate.over_peer}};
    }
    return print_json(object);
  }
  print(fmt::format("kernels {}, {}, medians of {}, GFLOP/s\n", ops::name_of(result.isa),
                    counted(static_cast<uint64_t>(result.threads), "thread"),
                    counted(static_cast<uint64_t>(result.rounds), "round")));
  print(fmt::format("{:<6}{:>20}{:>16}{:>12} cubed{:>18}\n", "", "ceiling, registers", "from cache",
                    result.size, "share of ceiling"));
  for (const advisor::MatrixRate& rate : result.rates) {
    print(fmt::format("{:<6}{:>20.1f}{:>16.1f}{:>18.1f}{:>16.0f} %\n", short_name(rate.dtype),
                      rate.register_flops / 1e9, rate.cache_flops / 1e9, rate.product_flops / 1e9,
                      100 * rate.share()));
  }
  if (result.peer.empty()) return;
  print(fmt::format("{} on the same products, by turns with ours:\n", result.peer));
  for (const advisor::MatrixRate& rate : result.rates) {
    print(fmt::format("{:<6}{:>36}{:>18.1f}{:>10.2f} x is ours\n", short_name(rate.dtype), "",
                      rate.peer_flops / 1e9, rate.over_peer));
  }
}

}  // namespace

nlohmann::json ceilings_json(const advisor::Ceilings& ceilings) {
  return {{"bf16_flops", ceilings.bf16_flops},
          {"fp32_flops", ceilings.f32_flops},
          {"read_bytes_per_second", ceilings.read_bytes}};
}

void add_ops(nlohmann::json& object, const advisor::OpTable& table) {
  nlohmann::json ops = nlohmann::json::array();
  for (const advisor::OpFigures& op : table.ops) {
    ops.push_back({{"part", op.part},
                   {"op", op.op},
                   {"shape", op.shape},
                   {"calls", op.calls},
                   {"seconds", op.seconds},
                   {"share_of_time", op.share},
                   {"flops", op.flops},
                   {"bytes", op.bytes},
                   {"bound", op.bound},
                   {"bound_seconds", op.bound_seconds},
                   {"share_of_bound", op.reached()}});
  }
  object["ops"] = std::move(ops);
  object["outside_seconds"] = table.outside_seconds;
}

void add_bench(CLI::App& app) {
  CLI::App* group = add_group(app, "bench", "Measure this machine against its own ceiling");
  CLI::App* verb = add_verb(*group, "gemm", "Matrix products in bf16 and fp32, interleaved",
                            "bench gemm --seconds 10 --json");
  auto options = std::make_shared<Options>();
  add_number(*verb, "--size", options->size, "Rows, columns and depth of the product",
             {.least = 1, .most = 32768});
  add_number(*verb, "--seconds", options->seconds, "About how long to measure",
             {.least = 0, .above = true});
  verb->add_flag("--peers", options->peers,
                 "Measure oneDNN's products too, by turns with ours (where it was found at build)");
  add_json_flag(*verb, options->json);
  verb->callback([options] { run(*options); });
  add_bench_memory(*group);
  add_bench_step(*group);
  add_bench_decode(*group);
}

}  // namespace athanor::cli
