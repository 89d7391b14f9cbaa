// athanor generate: a model continues a prompt.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/verbs.h"
#include "infer/completion.h"

namespace athanor::cli {
namespace {

struct Options {
  infer::CompletionRequest request;
  std::string precision = "bf16";
  bool json = false;
};

void run(Options& options) {
  options.request.precision = infer::parse_precision(options.precision);
  const infer::Completion completion = infer::complete(options.request, [](std::string_view piece) {
    print(piece);
    flush_output();
  });
  print("\n");
  if (!options.json) return;
  nlohmann::json result = {{"ids", completion.ids},
                           {"text", nullptr},
                           {"prompt_tokens", completion.prompt_tokens},
                           {"finish_reason", completion.stopped ? "stop" : "length"}};
  if (completion.text) result["text"] = *completion.text;
  print_json(result);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* verb = add_verb(app, "generate", "Continue a prompt with a model",
                            "generate runs/demo --prompt 'In the beginning' --temperature 0.8");
  auto options = std::make_shared<Options>();
  infer::CompletionRequest& request = options->request;
  verb->add_option("MODEL", request.model, "Model directory, checkpoint or run directory")
      ->required();
  CLI::Option* prompt = verb->add_option("--prompt", request.prompt, "Text to continue");
  verb->add_option("--ids", request.ids, "Token ids to continue, such as 1,2,3")->excludes(prompt);
  add_number(*verb, "--max-tokens", request.max_tokens,
             "Most tokens to generate (default: 256, or what the context leaves)", {.least = 1});
  add_number(*verb, "--temperature", request.sampling.temperature, "0 takes the likeliest token",
             {.least = 0});
  add_number(*verb, "--top-k", request.sampling.top_k, "Draw among the K likeliest tokens; 0: all",
             {.least = 0});
  add_number(*verb, "--top-p", request.sampling.top_p,
             "Draw among the fewest tokens that reach probability P together",
             {.least = 0, .most = 1, .above = true});
  add_number(*verb, "--seed", request.sampling.seed, "Equal seeds draw equal tokens");
  verb->add_flag("--ignore-eos", request.ignore_eos, "Go on after the end-of-text token");
  add_precision(*verb, options->precision);
  verb->add_flag("--json", options->json,
                 "End with a line that is an object: ids (generated ones), text, finish_reason");
  verb->callback([options] { run(*options); });
}

}  // namespace athanor::cli
