#include "train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/documents.h"
#include "train/phases.h"
#include "train/startup.h"
#include "train/trainer.h"

namespace athanor::train {
namespace {

/// Refuses a config that will not fit before hours go into its text. A run that has a checkpoint (`begun`) is resolved,
/// whatever has become of the model that it began with.
void require_fit(Config config, bool begun) {
  if (!begun) resolve_vocab(config, expected_vocab(config));
  require_memory("this config (athanor plan memory shows what takes it)",
                 plan_memory(config, Threads(), Place{}).total());
}

/// Everything before the next step: the trainer is ready to run.
std::unique_ptr<Trainer> prepare_training(const TrainOptions& options, Start& start,
                                          RunDirectory& directory, const StopSignals& signals) {
  Config& config = start.config;
  const bool begun = start.checkpoint.has_value();
  require_fit(config, begun);
  directory.write_config(to_toml(config));

  const auto stop = [&] {
    if (!signals.requested()) return;
    directory.event("stopped by signal", 0, {{"signal", signals.name()}});
    throw Error(ExitCode::kStopped, fmt::format("stopped by {} before the first step; the same "
                                                "command goes on",
                                                signals.name()));
  };
  PreparedData data = prepare_data(config, directory, begun, Threads(), stop);
  if (begun) {
    require_room(config, data.tokenizer->vocab_size());
  } else {
    resolve_vocab(config, data.tokenizer->vocab_size());
  }
  directory.write_config(to_toml(config));

  auto trainer = std::make_unique<Trainer>(config, directory, std::move(data), signals);
  if (start.checkpoint) {
    trainer->resume(*start.checkpoint);
  } else {
    directory.event("started", 0, {{"steps", trainer->steps()}, {"seed", config.seed}});
    trainer->begin();
    stop();
  }
  if (options.steps && trainer->state().step > *options.steps) {
    throw usage_error(fmt::format("--steps {}: the run has done {} already", *options.steps,
                                  counted(static_cast<uint64_t>(trainer->state().step), "step")));
  }
  return trainer;
}

/// A start that was refused must not decide what the next one does: its text may be mended, its config changed. The config of
/// the run that lay there comes back; where none lay, all that it wrote goes. What it prepared for a first step goes, too.
std::unique_ptr<Trainer> start_training(const TrainOptions& options, RunDirectory& directory,
                                        const StopSignals& signals) {
  const std::optional<std::string> before = directory.stored_config();
  std::optional<Start> start;
  try {
    start.emplace(find_start(options, directory));
    return prepare_training(options, *start, directory, signals);
  } catch (const Error& error) {
    const bool refused = error.code() == ExitCode::kUsage || error.code() == ExitCode::kData;
    if (refused && start && (!before || !start->checkpoint)) {
      discard_prepared(start->config, directory);
    }
    if (!before && (refused || !directory.stored_config())) directory.withdraw();
    if (before && refused && directory.stored_config() != before) directory.write_config(*before);
    throw;
  }
}

}  // namespace

TrainReport train(const TrainOptions& options) {
  wanted_config(options);  // a fault in it is found before the folder is touched
  const StopSignals signals;
  RunDirectory directory(run_directory_of(options));
  const std::unique_ptr<Trainer> running = start_training(options, directory, signals);
  Trainer& trainer = *running;
  trainer.run(options.steps);
  TrainReport report;
  report.directory = directory.path();
  report.step = trainer.state().step;
  report.steps = trainer.steps();
  report.checkpoint = directory.checkpoints() / checkpoint::checkpoint_name(report.step);
  report.model = trainer.export_model();
  directory.event(report.step == report.steps ? "finished" : "stopped after --steps", report.step,
                  {{"model", report.model.string()}});
  return report;
}

std::string to_text(const TrainReport& report) {
  const std::string directory = report.directory.string();
  const auto step = static_cast<uint64_t>(report.step);
  const auto steps = static_cast<uint64_t>(report.steps);
  std::string text = report.step == report.steps
                         ? fmt::format("Trained: {}.\n", counted(step, "step"))
                         : fmt::format("Trained {} of {}.\n", step, counted(steps, "step"));
  text += fmt::format("  model       {}\n  checkpoint  {}\n  metrics     {}/metrics.jsonl\n",
                      report.model.string(), report.checkpoint.string(), directory);
  text += "Next:\n";
  if (report.step < report.steps) {
    text += "  the same command with a larger --steps, or without it, goes on\n";
  }
  text += fmt::format("  athanor generate {} --prompt \"Once\" --max-tokens 100\n",
                      report.model.string());
  std::error_code absent;
  if (const auto held_out = fs::file_size(report.directory / "heldout.jsonl", absent);
      !absent && held_out > 0) {
    text += fmt::format("  athanor eval perplexity {} --data {}/heldout.jsonl\n",
                        report.model.string(), directory);
  }
  return text;
}

std::string describe_training(const TrainOptions& options) {
  Config config = wanted_config(options);
  const fs::path out = run_directory_of(options);
  const auto count = [](int64_t n, const char* noun) {
    return counted(static_cast<uint64_t>(n), noun);
  };
  std::string text;
  const bool begun = fs::exists(out / "config.toml") && fs::exists(out / "checkpoints");
  if (begun) {
    Config stored =
        parse_stored_config(read_file(out / "config.toml", ExitCode::kUsage), out / "config.toml");
    for (const ConfigChange& change :
         adopt_changes(stored, config, options.overrides, out.string())) {
      text +=
          fmt::format("{} would change from {} to {}\n", change.key, change.before, change.after);
    }
    config = stored;
    text += fmt::format("The run in {} would go on.\n", out.string());
  }
  for (const std::string& path : source_paths(config)) {
    if (path.empty()) continue;
    if (data::is_pack(path)) {
      const data::PackIndex index = data::read_pack_index(path);
      text += fmt::format("data      {}: {} in shards\n", path,
                          counted(index.tokens(data::Split::kTrain), "token"));
    } else {
      const data::DocumentFiles files(path);
      text += fmt::format("data      {}: {} of text, {}\n", path,
                          counted(files.files().size(), "file"), size_text(files.bytes()));
    }
  }
  if (!begun || config.model.vocab == kAuto) resolve_vocab(config, expected_vocab(config));
  const RunPlan plan(config);
  int64_t step = 0;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const Phase& phase = config.phases[i];
    const int64_t steps = plan.phase_steps(static_cast<int>(i));
    const StepPlan first = plan.at(step);
    const StepPlan last = plan.at(step + steps - 1);
    text +=
        fmt::format("phase     {}: {}, {}, {}{} of {}, theta {:g}, learning rate {:g} to {:g}\n",
                    phase.name.empty() ? std::to_string(i) : phase.name, count(steps, "step"),
                    count(last.tokens_before + last.tokens() - first.tokens_before, "token"),
                    first.sequences == last.sequences ? "" : fmt::format("{} to ", first.sequences),
                    count(last.sequences, "sequence"), count(phase.sequence, "token"), phase.theta,
                    phase.learning_rate, plan.at(step + steps - 1).learning_rate);
    step += steps;
  }
  if (config.run.time_budget_seconds > 0 && !config.run.tokens_fitted) {
    text += fmt::format("          scaled, once the machine is measured, to take {}\n",
                        log::duration_text(config.run.time_budget_seconds));
  }
  text += fmt::format("in all    {}, {}, micro-batch {}\n", count(plan.steps(), "step"),
                      count(plan.tokens(), "token"), config.batch.micro_batch);
  text += fmt::format(
      "writes    {0}/{{config.toml, metrics.jsonl, events.jsonl, tensorboard, "
      "checkpoints, tokenizer, model}}\n\n",
      out.string());
  return text + to_text(plan_memory(config, Threads(), Place{}));
}

MemoryPlan plan_memory_of(const fs::path& path, const std::vector<std::string>& overrides) {
  Config config = read_config(path, overrides);
  resolve_vocab(config, expected_vocab(config));
  return plan_memory(config, Threads(), Place{});
}

}  // namespace athanor::train
