// athanor probe: exact outputs of a batch, for comparison with other engines.
#include "eval/probe.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/counted.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "infer/session.h"

namespace athanor::cli {
namespace {

struct Options {
  eval::ProbeOptions probe;
  std::string precision = "fp32";
};

void run(Options& options) {
  options.probe.precision = infer::parse_precision(options.precision);
  const eval::ProbeResult result = eval::probe(options.probe);
  print(fmt::format("{} of {} to {}{}\n", counted(static_cast<uint64_t>(result.tensors), "tensor"),
                    counted(static_cast<uint64_t>(result.tokens), "token"),
                    options.probe.out.string(),
                    result.loss ? fmt::format(", loss {:.6f}", *result.loss) : ""));
}

}  // namespace

void add_probe(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "probe", "Write a model's exact activations, loss and gradients for a batch",
      "probe model/ --batch batch.safetensors --out out.safetensors --gradients grads.safetensors");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->probe.model, "Model directory, checkpoint or run directory")
      ->required();
  verb->add_option("--batch", options->probe.batch,
                   "safetensors file with input_ids and optionally labels, targets, cu_seqlens, "
                   "attention_mask")
      ->required();
  verb->add_option("--out", options->probe.out, "safetensors file to write; replaced if it exists")
      ->required();
  verb->add_option("--gradients", options->probe.gradients,
                   "safetensors file for the gradients of the loss");
  add_precision(*verb, options->precision);
  verb->callback([options] { run(*options); });
}

}  // namespace athanor::cli
