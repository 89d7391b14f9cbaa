#include "train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/memory.h"
#include "comm/agree.h"
#include "comm/beating.h"
#include "comm/mpi_loader.h"
#include "comm/worker.h"
#include "data/documents.h"
#include "train/phases.h"
#include "train/startup.h"
#include "train/trainer.h"

namespace athanor::train {
namespace {

/// The ranks of this launch: as many as mpirun or srun started, or this process alone.
std::unique_ptr<comm::Communicator> join_world(const Config& config) {
  const CommSection& wanted = config.comm;
  comm::Worker& worker = comm::Worker::self();
  const comm::Launch& launch = worker.launch();
  if (!launch.many()) return std::make_unique<comm::Communicator>();
  comm::CommunicatorOptions options;
  options.node_ranks = wanted.hierarchy ? 0 : 1;
  options.order = wanted.order;
  options.patience_seconds = wanted.patience;
  options.part_bytes = part_bytes(config);
  options.pulse = std::shared_ptr<comm::Pulse>(&worker.pulse(), [](comm::Pulse*) {});
  auto world = std::make_unique<comm::Communicator>(
      [launch] { return comm::load_transport(launch); }, options);
  worker.set_silence_limit(wanted.silence_limit);
  worker.meet(*world);
  return world;
}

/// A start under way, on one of the ranks.
struct Starting {
  const TrainOptions& options;
  RunDirectory& directory;
  const StopSignals& signals;
  comm::Communicator& world;
  std::optional<Start> start;
  std::optional<PreparedData> data;

  Place place() const { return {world.rank(), world.size()}; }
  void stop_if_asked() {
    if (!signals.requested()) return;
    directory.event("stopped by signal", 0, {{"signal", signals.name()}});
    throw Error(ExitCode::kStopped, fmt::format("stopped by {} before the first step; the same "
                                                "command goes on",
                                                signals.name()));
  }
};

/// Refuses a config that will not fit before hours go into its text. A run that has a checkpoint (`begun`) is resolved,
/// whatever has become of the model that it began with.
void require_fit(Config config, bool begun, Place place) {
  if (!begun) resolve_vocab(config, expected_vocab(config));
  require_memory("this config (athanor plan memory shows what takes it)",
                 plan_memory(config, Threads(), place).total());
}

/// What the first rank does for all: afterwards the run's config, tokenizer and packed text are there. Returns where the
/// others find them.
std::string prepare_once(Starting& s) {
  s.start.emplace(find_start(s.options, s.directory));
  Config& config = s.start->config;
  const bool begun = s.start->checkpoint.has_value();
  require_fit(config, begun, s.place());
  s.directory.write_config(to_toml(config));
  s.data = prepare_data(config, s.directory, begun, Threads(), [&] { s.stop_if_asked(); });
  if (begun) {
    require_room(config, s.data->tokenizer->vocab_size());
  } else {
    resolve_vocab(config, s.data->tokenizer->vocab_size());
  }
  s.directory.write_config(to_toml(config));
  return nlohmann::json{{"config", to_toml(config)},
                        {"checkpoint", begun ? s.start->checkpoint->path().string() : ""}}
      .dump();
}

/// The same on the other ranks, from what the first one found.
void follow(Starting& s, const std::string& told) {
  const auto json = nlohmann::json::parse(told);
  s.start.emplace();
  s.start->config = parse_config(json.at("config").get<std::string>(), "rank 0's config", {});
  const auto path = json.at("checkpoint").get<std::string>();
  if (!path.empty()) s.start->checkpoint = checkpoint::Checkpoint::open(path);
  s.data = prepare_data(s.start->config, s.directory, /*checkpointed=*/true, Threads(), [] {});
}

/// Notes who works together, and says it where that decides the bits.
void tell_of_ranks(const Starting& s, int64_t step) {
  const int ranks = s.world.size();
  if (ranks == 1) return;
  s.directory.event("ranks met", step,
                    {{"ranks", ranks},
                     {"ranks_of_a_node", s.world.node_ranks()},
                     {"library", s.world.library()}});
  const int64_t groups = s.start->config.batch.reduction_groups;
  if (groups % ranks == 0 || !s.directory.leads()) return;
  log::warning(fmt::format(
      "{} ranks cannot share the {} of batch.reduction_groups evenly: the run learns as "
      "well, but has not the bits that another number of ranks gives",
      ranks, counted(static_cast<uint64_t>(groups), "group")));
}

/// Everything before the next step: the trainer is ready to run.
std::unique_ptr<Trainer> prepare_training(Starting& s) {
  s.world.pulse().enter(comm::Phase::kData, 0);
  std::optional<comm::Beating> beating(s.world);
  const std::string told = comm::lead(s.world, [&] { return prepare_once(s); });
  std::unique_ptr<Trainer> trainer;
  comm::agree(s.world, [&] {
    if (s.world.size() > 1) log::to_file(s.directory.log(s.world.rank()), s.directory.leads());
    if (!s.directory.leads()) follow(s, told);
    require_memory("this rank", plan_memory(s.start->config, Threads(), s.place()).total());
  });
  comm::require_alike(s.world, "data", s.data->identity);
  comm::agree(s.world, [&] {
    trainer = std::make_unique<Trainer>(s.start->config, s.directory, std::move(*s.data), s.signals,
                                        s.world);
    if (s.start->checkpoint) trainer->resume(*s.start->checkpoint);
  });
  beating.reset();
  tell_of_ranks(s, trainer->state().step);
  if (!s.start->checkpoint) {
    s.directory.event("started", 0, {{"steps", trainer->steps()}, {"seed", s.start->config.seed}});
    trainer->begin();
    comm::agree(s.world, [&] { s.stop_if_asked(); });
  }
  const std::optional<int64_t> steps = s.options.steps;
  comm::agree(s.world, [&] {
    if (steps && trainer->state().step > *steps) {
      throw usage_error(fmt::format("--steps {}: the run has done {} already", *steps,
                                    counted(static_cast<uint64_t>(trainer->state().step), "step")));
    }
  });
  return trainer;
}

/// A start that was refused must not decide what the next one does: its text may be mended, its config changed. The config of
/// the run that lay there comes back; where none lay, all that it wrote goes. What it prepared for a first step goes, too.
std::unique_ptr<Trainer> start_training(Starting& s) {
  const std::optional<std::string> before = s.directory.stored_config();
  try {
    return prepare_training(s);
  } catch (const Error& error) {
    if (!s.directory.leads()) throw;
    const bool refused = error.code() == ExitCode::kUsage || error.code() == ExitCode::kData;
    if (refused && s.start && (!before || !s.start->checkpoint)) {
      discard_prepared(s.start->config, s.directory);
    }
    if (!before && (refused || !s.directory.stored_config())) s.directory.withdraw();
    if (before && refused && s.directory.stored_config() != before) {
      s.directory.write_config(*before);
    }
    throw;
  }
}

/// Refuses ranks that would not compute the same.
void require_same_start(comm::Communicator& world, const TrainOptions& options,
                        const Config& wanted) {
  Arena none("none");
  comm::require_alike(world, "kernels",
                      std::string(ops::name_of(ops::Context(Threads(1), none).isa())));
  comm::require_alike(world, "program", options.program);
  comm::require_alike(world, "config", to_toml(wanted));
}

}  // namespace

TrainReport train(const TrainOptions& options) {
  const Config wanted =
      wanted_config(options);  // a fault in it is found before the folder is touched
  const StopSignals signals;
  const std::unique_ptr<comm::Communicator> world = join_world(wanted);
  require_same_start(*world, options, wanted);
  std::optional<RunDirectory> directory;
  comm::agree(*world, [&] {
    const fs::path path = run_directory_of(options);
    if (world->rank() == 0) {
      directory.emplace(path);
    } else {
      directory.emplace(path, RunDirectory::Follower{});
    }
  });
  Starting starting{options, *directory, signals, *world, {}, {}};
  const std::unique_ptr<Trainer> running = start_training(starting);
  Trainer& trainer = *running;
  trainer.run(options.steps);
  TrainReport report;
  report.leads = directory->leads();
  report.directory = directory->path();
  report.step = trainer.state().step;
  report.steps = trainer.steps();
  report.checkpoint = directory->checkpoints() / checkpoint::checkpoint_name(report.step);
  report.model = trainer.export_model();
  directory->event(report.step == report.steps ? "finished" : "stopped after --steps", report.step,
                   {{"model", report.model.string()}});
  world->pulse().enter(comm::Phase::kEnd, report.step);
  world->barrier();  // nobody leaves while another still needs it
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

MemoryPlan plan_memory_of(const fs::path& path, const std::vector<std::string>& overrides,
                          int ranks) {
  Config config = read_config(path, overrides);
  resolve_vocab(config, expected_vocab(config));
  return plan_memory(config, Threads(), Place{0, ranks});
}

}  // namespace athanor::train
