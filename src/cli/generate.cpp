// athanor generate: a model continues a prompt, many prompts, or a conversation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/verbs.h"
#include "infer/chat.h"
#include "infer/completion.h"
#include "infer/prompt_lines.h"

namespace athanor::cli {
namespace {

struct Options {
  infer::CompletionRequest request;
  std::optional<fs::path> jsonl;
  std::string precision = "bf16";
  bool json = false;
};

void show(std::string_view piece) {
  print(piece);
  flush_output();
}

/// Asks on the terminal until the input ends.
void converse(const infer::CompletionRequest& request) {
  infer::Chat chat(request.model, request.system, request.writing);
  std::string question;
  while (show("> "), std::getline(std::cin, question)) {
    if (question.empty()) continue;
    chat.answer(question, show);
    show("\n\n");
  }
  show("\n");
}

void run(Options& options) {
  infer::CompletionRequest& request = options.request;
  request.writing.precision = infer::parse_precision(options.precision);
  const bool prompt = request.prompt || request.prompt_file || request.ids;
  if (options.jsonl) {
    const fs::path lines = *options.jsonl == "-" ? "/dev/stdin" : *options.jsonl;
    return infer::complete_lines(
        {request.model, lines, request.chat, request.system, request.writing}, show);
  }
  if (request.chat && !prompt && !options.json && isatty(STDIN_FILENO) == 1) {
    return converse(request);
  }
  const infer::Completion completion = infer::complete(request, show);
  print("\n");
  if (!options.json) return;
  nlohmann::json result = {{"ids", completion.ids},
                           {"text", nullptr},
                           {"prompt_tokens", completion.prompt_tokens},
                           {"finish_reason", completion.finish_reason}};
  if (completion.text) result["text"] = *completion.text;
  print_json(result);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* verb = add_verb(app, "generate", "Continue a prompt with a model",
                            "generate runs/demo --prompt 'In the beginning' --temperature 0.8");
  auto options = std::make_shared<Options>();
  infer::CompletionRequest& request = options->request;
  infer::WritingOptions& writing = request.writing;
  verb->add_option("MODEL", request.model, "Model directory, checkpoint or run directory")
      ->required();
  CLI::Option* prompt = verb->add_option("--prompt", request.prompt, "Text to continue");
  CLI::Option* file = verb->add_option("--prompt-file", request.prompt_file,
                                       "File with the text; -: standard input")
                          ->excludes(prompt);
  CLI::Option* ids = verb->add_option("--ids", request.ids, "Token ids to continue, such as 1,2,3")
                         ->excludes(prompt)
                         ->excludes(file);
  CLI::Option* jsonl =
      verb->add_option(
              "--jsonl", options->jsonl,
              "File with an object a line (prompt or ids, max_tokens, seed), continued side "
              "by side; stdout gets an object for each")
          ->excludes(prompt)
          ->excludes(file)
          ->excludes(ids);
  verb->add_flag("--chat", request.chat,
                 "The prompt is a user's turn (model's ChatML template); without a prompt, talk")
      ->excludes(ids);
  verb->add_option("--system", request.system, "With --chat: the system's turn");
  verb->add_option("--stop", writing.stop, "Text at which to end; may be given again")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  add_number(*verb, "--max-tokens", writing.max_tokens,
             "Most tokens to generate (default: 256, or what the context leaves)", {.least = 1});
  add_number(*verb, "--temperature", writing.sampling.temperature, "0 takes the likeliest token",
             {.least = 0});
  add_number(*verb, "--top-k", writing.sampling.top_k, "Draw among the K likeliest tokens; 0: all",
             {.least = 0});
  add_number(*verb, "--top-p", writing.sampling.top_p,
             "Draw among the fewest tokens that reach probability P together",
             {.least = 0, .most = 1, .above = true});
  add_number(*verb, "--seed", writing.sampling.seed,
             "Equal seeds draw equal tokens; object i of --jsonl, from 0, has the seed S + i");
  verb->add_flag("--ignore-eos", writing.ignore_eos, "Go on after the end-of-text token");
  add_precision(*verb, options->precision);
  verb->add_flag("--json", options->json,
                 "End with a line that is an object: ids (generated ones), text, finish_reason")
      ->excludes(jsonl);
  verb->callback([options] { run(*options); });
}

}  // namespace athanor::cli
