// athanor bench gemm: how fast this machine multiplies matrices, against its own ceiling.
#include "cli/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "advisor/matrix_rate.h"
#include "advisor/product_rates.h"
#include "base/counted.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace athanor::cli {
namespace {

struct Options {
  int64_t size = 2048;
  double seconds = 5;
  std::vector<std::string> configs;
  bool peers = false;
  bool json = false;
};

const char* short_name(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "fp32"; }

void run_products(const Options& options) {
  const advisor::ProductRates result =
      advisor::measure_product_rates(options.configs, options.seconds, options.peers);
  const bool peer = !result.peer.empty();
  if (options.json) {
    nlohmann::json products = nlohmann::json::array();
    for (const advisor::ProductRate& p : result.products) {
      products.push_back({{"config", p.shape.config},
                          {"layer", p.shape.layer},
                          {"kind", advisor::name_of(p.shape.kind)},
                          {"t", p.shape.t},
                          {"n", p.shape.n},
                          {"k", p.shape.k},
                          {"flops", p.flops},
                          {"share_of_ceiling", p.share}});
      if (!peer) continue;
      products.back()["peer_flops"] = p.peer_flops;
      products.back()["ratio"] = p.over_peer;
    }
    nlohmann::json object = {{"kernels", ops::name_of(result.isa)},
                             {"threads", result.threads},
                             {"rounds", result.rounds},
                             {"products", std::move(products)}};
    if (peer) {
      object["peers"][result.peer] = {{"geometric_mean", result.geometric_mean},
                                      {"least", result.least}};
    }
    return print_json(object);
  }
  print(fmt::format("kernels {}, {}, bf16, medians of {}; w is [n, k]\n", ops::name_of(result.isa),
                    counted(static_cast<uint64_t>(result.threads), "thread"),
                    counted(static_cast<uint64_t>(result.rounds), "round")));
  print(fmt::format("{:<12}{:<18}{:<17}{:>7}{:>8}{:>7}{:>10}{:>12}", "config", "layer", "product",
                    "t", "n", "k", "GFLOP/s", "of ceiling"));
  print(peer ? fmt::format("{:>14}{:>8}\n", result.peer, "ratio") : std::string("\n"));
  for (const advisor::ProductRate& p : result.products) {
    print(fmt::format("{:<12}{:<18}{:<17}{:>7}{:>8}{:>7}{:>10.1f}{:>10.0f} %", p.shape.config,
                      p.shape.layer, advisor::name_of(p.shape.kind), p.shape.t, p.shape.n,
                      p.shape.k, p.flops / 1e9, 100 * p.share));
    print(peer ? fmt::format("{:>14.1f}{:>8.2f}\n", p.peer_flops / 1e9, p.over_peer)
               : std::string("\n"));
  }
  if (!peer) return;
  print(fmt::format("ours over {}: {:.2f} in the geometric mean, {:.2f} at least\n", result.peer,
                    result.geometric_mean, result.least));
}

void run(const Options& options) {
  if (!options.configs.empty()) return run_products(options);
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
  CLI::Option* configs =
      verb->add_option("CONFIG", options->configs,
                       "Training configs: their products in bf16 instead, each shape once");
  add_number(*verb, "--size", options->size, "Rows, columns and depth of the product",
             {.least = 1, .most = 32768})
      ->excludes(configs);
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
