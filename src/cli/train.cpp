#include "train/train.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "cli/version.h"

namespace athanor::cli {

void add_train(CLI::App& app) {
  struct Options {
    train::TrainOptions train;
    bool dry_run = false;
  };
  auto options = std::make_shared<Options>();
  train::TrainOptions& o = options->train;
  CLI::App* verb =
      add_verb(app, "train", "Train a model from text or packed shards, or go on with a run",
               "train configs/tiny.toml --data book.txt --out runs/tiny");
  verb->add_option("CONFIG", o.config, "TOML file that describes the run")->required();
  verb->add_option("--data", o.data, "Text file, folder of text, or packed shards");
  verb->add_option("--out", o.out, "Run directory (default: runs/ and the config's name)");
  verb->add_option("--init", o.init, "Start from this model's weights and tokenizer");
  verb->add_option("--resume", o.resume,
                   "auto: go on with the run in --out; none: start over; or a "
                   "checkpoint")
      ->capture_default_str();
  add_number(*verb, "--steps", o.steps, "Stop after this global step; a later call goes on",
             {.least = 1});
  verb->add_option("--set", o.overrides, "Override a key of the config: section.key=value")
      ->take_all();
  verb->add_flag("--dry-run", options->dry_run, "Print what would run, and stop");
  verb->callback([options] {
    run_on_ranks();
    options->train.program = version_text();
    if (options->dry_run) {
      print(train::describe_training(options->train));
    } else {
      const train::TrainReport report = train::train(options->train);
      if (report.leads) print(train::to_text(report));
    }
  });
}

}  // namespace athanor::cli
