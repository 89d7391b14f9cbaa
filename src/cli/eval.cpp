// athanor eval perplexity: what a model charges for documents.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "eval/perplexity.h"
#include "infer/session.h"

namespace athanor::cli {
namespace {

struct Options {
  eval::PerplexityOptions perplexity;
  std::string precision = "bf16";
  bool json = false;
};

void run(Options& options) {
  options.perplexity.precision = infer::parse_precision(options.precision);
  const eval::Perplexity result = eval::measure_perplexity(options.perplexity);
  if (options.json) {
    print_json({{"bits_per_byte", result.bits_per_byte},
                {"perplexity", result.perplexity},
                {"nats", result.nats},
                {"tokens", result.tokens},
                {"bytes", result.bytes},
                {"documents", result.documents},
                {"context", result.context},
                {"bos", result.bos},
                {"eos", result.eos},
                {"precision", options.precision}});
    return;
  }
  const auto count = [](int64_t n) { return static_cast<uint64_t>(n); };
  print(fmt::format(
      "{:.4f} bits per byte   perplexity {:.3f} a token\n"
      "{}, {}, {} charged{}; context {}, {}\n",
      result.bits_per_byte, result.perplexity, counted(count(result.documents), "document"),
      counted(count(result.bytes), "byte"), counted(count(result.tokens), "token"),
      result.eos ? ", EOS included" : "", result.context, options.precision));
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* group = add_group(app, "eval", "Measure a model");
  CLI::App* verb = add_verb(*group, "perplexity", "Bits per byte and perplexity on documents",
                            "eval perplexity runs/demo --data runs/demo/heldout.jsonl --json");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->perplexity.model,
                   "Model directory, checkpoint or run directory")
      ->required();
  verb->add_option("--data", options->perplexity.data, "A .txt or .jsonl file, or a folder of them")
      ->required();
  add_number(*verb, "--context", options->perplexity.context,
             "Most tokens that a prediction sees (default: the longest sequence of its training)",
             {.least = 1});
  add_precision(*verb, options->precision);
  add_json_flag(*verb, options->json);
  verb->callback([options] { run(*options); });
}

}  // namespace athanor::cli
