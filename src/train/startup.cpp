#include "train/startup.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "checkpoint/open_model.h"
#include "train/phases.h"
#include "train/prepare.h"

namespace athanor::train {
namespace {

/// Refuses, by key, a model whose shape is not the config's.
void require_geometry(const Config& config, const model::ModelConfig& given) {
  const model::ModelConfig wanted = model_config(config);
  const auto same = [&](const char* key, auto want, auto have) {
    if (want == have) return;
    throw usage_error(fmt::format("model.{}: the config says {}, {} has {}: make them equal", key,
                                  want, config.run.init, have));
  };
  same("layers", wanted.layers, given.layers);
  same("hidden", wanted.hidden, given.hidden);
  same("query_heads", wanted.heads.query, given.heads.query);
  same("key_value_heads", wanted.heads.key, given.heads.key);
  same("head_size", wanted.heads.size, given.heads.size);
  same("experts", wanted.experts, given.experts);
  same("expert_inner", wanted.expert_inner, given.expert_inner);
  same("router", wanted.router, given.router);
  same("vocab", wanted.vocab, given.vocab);
  same("partial_rotary", wanted.partial_rotary, given.partial_rotary);
  same("rms_norm_eps", wanted.rms_norm_eps, given.rms_norm_eps);
  for (size_t layer = 0; layer < wanted.layer_kinds.size(); ++layer) {
    if (wanted.layer_kinds[layer] == given.layer_kinds[layer]) continue;
    throw usage_error(fmt::format("model.layer_types: layer {} is of another kind in {}", layer,
                                  config.run.init));
  }
  const bool slides = std::find(wanted.layer_kinds.begin(), wanted.layer_kinds.end(),
                                model::LayerKind::kSliding) != wanted.layer_kinds.end();
  if (slides) same("sliding_window", wanted.sliding_window, given.sliding_window);
}

/// Refuses run.init_optimizer = "given" where run.init holds no optimizer's state, or that of another kind.
void require_optimizer_state(const Config& config) {
  if (config.run.init_optimizer == InitOptimizer::kFresh) return;
  if (config.run.init.empty()) {
    throw usage_error(
        "run.init_optimizer: \"given\" needs a checkpoint to start from: name it with --init");
  }
  const checkpoint::OpenedModel model = checkpoint::open_model(config.run.init);
  bool any = false;
  bool momentum = false;
  if (model.checkpoint) {
    const checkpoint::Checkpoint given = checkpoint::Checkpoint::open(model.directory);
    for (const checkpoint::StoredTensor& tensor : given.manifest().tensors) {
      any |= tensor.name.starts_with("optimizer.");
      momentum |= tensor.name.starts_with("optimizer.momentum.");
    }
  }
  if (!any) {
    throw usage_error(fmt::format(
        "run.init_optimizer: {} holds no optimizer state; \"fresh\" begins without, or name the "
        "checkpoint of a run",
        model.directory.string()));
  }
  if (momentum != (config.optimizer.kind == optim::OptimizerKind::kMuon)) {
    const char* given = momentum ? "muon" : "adamw";
    throw usage_error(
        fmt::format("run.init_optimizer: {} holds the state of {}, which optimizer.kind is not: "
                    "make it \"{}\", "
                    "or take \"fresh\"",
                    model.directory.string(), given, given));
  }
}

void report_damage(RunDirectory& directory, const checkpoint::LatestCheckpoint& latest) {
  for (const checkpoint::DamagedCheckpoint& damaged : latest.damaged) {
    log::warning(fmt::format("{} is damaged: {}", damaged.path.string(), damaged.reason));
    directory.event("checkpoint damaged", 0,
                    {{"path", damaged.path.string()}, {"reason", damaged.reason}});
  }
}

/// The newest checkpoint of the run; none when it never saved one.
std::optional<checkpoint::Checkpoint> newest(RunDirectory& directory) {
  if (!fs::exists(directory.checkpoints())) return std::nullopt;
  checkpoint::LatestCheckpoint latest = checkpoint::latest_valid(directory.checkpoints());
  report_damage(directory, latest);
  if (!latest.checkpoint && !latest.damaged.empty()) {
    throw data_error(fmt::format(
        "no checkpoint of {} is whole ({}: {}); --resume none starts over and keeps the old files",
        directory.path().string(), latest.damaged.front().path.string(),
        latest.damaged.front().reason));
  }
  return std::move(latest.checkpoint);
}

void adopt(Config& stored, const Config& wanted, const TrainOptions& options,
           RunDirectory& directory, int64_t step) {
  const std::string data_before = stored.data.path;
  for (const ConfigChange& change :
       adopt_changes(stored, wanted, options.overrides, directory.path().string())) {
    log::note(fmt::format("{} changes from {} to {}", change.key, change.before, change.after));
    directory.event("config changed", step,
                    {{"key", change.key}, {"before", change.before}, {"after", change.after}});
  }
  if (stored.data.path != data_before && data::is_pack(directory.shards(0))) {
    log::warning(
        fmt::format("{} is not read: the run goes on with the text of {} packed at its start",
                    stored.data.path, data_before));
  }
}

/// Refuses changes after which the run would have ended before the step that it stands at.
void require_steps_left(Config stored, const Config& wanted, const TrainOptions& options,
                        const RunDirectory& directory, int64_t step) {
  adopt_changes(stored, wanted, options.overrides, directory.path().string());
  const int64_t steps = RunPlan(stored).steps();
  if (steps >= step) return;
  throw usage_error(fmt::format(
      "phases.0.tokens: the phases' tokens come to {}, the run has done {} already: give it the "
      "tokens that it had (--set phases.0.tokens=…), or more",
      counted(static_cast<uint64_t>(steps), "step"), step));
}

/// The config of a run that has a checkpoint. The directory's own knows of changes that were made after the checkpoint. Where
/// it is damaged a checkpoint that was named brings its own; else that is the way out that the error names.
Config config_to_go_on_with(RunDirectory& directory, const std::optional<std::string>& stored,
                            const checkpoint::Checkpoint& checkpoint, bool named) {
  if (stored) {
    try {
      return parse_stored_config(*stored, directory.config());
    } catch (const Error& error) {
      if (!named) throw;
      log::warning(error.what());
      directory.event("config damaged", checkpoint.step(), {{"reason", error.what()}});
    }
  }
  return parse_config(checkpoint.manifest().config, checkpoint.path().string() + ": config", {});
}

/// Nothing was trained in this directory yet: the wanted config holds, and what an earlier start resolved is resolved anew.
/// What was prepared from the same text by the same tokenizer stays, and so do tokens that were fitted to a time budget.
void take_over_untrained(const std::string& stored_toml, Config& wanted,
                         const TrainOptions& options, RunDirectory& directory) {
  std::string reason;
  Config stored = wanted;
  try {
    stored = parse_stored_config(stored_toml, directory.config());
    if (wanted.data.path.empty()) wanted.data.path = stored.data.path;
    if (wanted.run.init.empty()) {
      wanted.run.init = stored.run.init;
      wanted.run.init_optimizer = stored.run.init_optimizer;
    }
    if (source_paths(stored) != source_paths(wanted)) {
      reason = "it reads other data";
    } else if (stored.tokenizer.path != wanted.tokenizer.path) {
      reason = "it has another tokenizer";
    } else {
      adopt(stored, wanted, options, directory, 0);
      if (stored.run.tokens_fitted) wanted = stored;
      return;
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kData) throw;
    reason = error.what();
  }
  directory.event("config replaced", 0, {{"reason", reason}});
  discard_prepared(stored, directory);
  discard_prepared(wanted, directory);
}

}  // namespace

Config parse_stored_config(const std::string& toml, const fs::path& path) {
  try {
    return parse_config(toml, path.string(), {});
  } catch (const Error& error) {
    throw data_error(fmt::format(
        "{}; this file is the run's own and damaged: put it back, or go on with the config of a "
        "checkpoint (--resume {}), or start over (--resume none, which keeps the old files)",
        error.what(), (path.parent_path() / "checkpoints" / "step-…").string()));
  }
}

fs::path run_directory_of(const TrainOptions& options) {
  return options.out.empty() ? fs::path("runs") / options.config.stem() : options.out;
}

Config wanted_config(const TrainOptions& options) {
  Config config = read_config(options.config, options.overrides);
  if (options.data) {
    config.data.path = *options.data;
    const std::vector<std::string> paths = source_paths(config);
    if (std::find(paths.begin(), paths.end(), *options.data) == paths.end()) {
      throw usage_error("--data " + *options.data +
                        " would not be read: every phase of the config names its own sources");
    }
  }
  if (options.init) config.run.init = *options.init;
  return config;
}

void resolve_vocab(Config& config, int64_t tokenizer_vocab) {
  require_optimizer_state(config);
  if (!config.run.init.empty()) {
    const model::ModelConfig given = checkpoint::open_model(config.run.init).config;
    if (config.model.vocab == kAuto) config.model.vocab = given.vocab;
    resolve_automatic(config);
    require_geometry(config, given);
  }
  if (config.model.vocab == kAuto) config.model.vocab = tokenizer_vocab;
  require_room(config, tokenizer_vocab);
  resolve_automatic(config);
}

Start find_start(const TrainOptions& options, RunDirectory& directory) {
  Start start{wanted_config(options), std::nullopt};
  if (options.resume == "none" && directory.stored_config()) {
    const fs::path aside = directory.set_aside();
    discard_prepared(start.config, directory);
    log::note("the run that lay there is now in " + aside.string());
    directory.event("started over", 0, {{"before", aside.string()}});
  }
  const std::optional<std::string> stored = directory.stored_config();
  if (options.resume != "none" && options.resume != "auto") {
    start.checkpoint = checkpoint::Checkpoint::open(options.resume);
    if (start.checkpoint->manifest().config.empty()) {
      throw usage_error(options.resume +
                        " was imported and belongs to no run that could go on; start one from it "
                        "with --init");
    }
    start.checkpoint->verify();
  } else if (stored) {
    start.checkpoint = newest(directory);
  }

  if (start.checkpoint) {
    const int64_t step = start.checkpoint->step();
    Config config = config_to_go_on_with(directory, stored, *start.checkpoint,
                                         /*named=*/options.resume != "auto");
    require_steps_left(config, start.config, options, directory, step);
    adopt(config, start.config, options, directory, step);
    start.config = std::move(config);
    const int64_t cut = directory.cut_metrics(step);
    const int64_t abandoned = checkpoint::abandon(directory.checkpoints(), step);
    directory.event("resumed", step,
                    {{"checkpoint", start.checkpoint->path().string()},
                     {"metrics_cut", cut},
                     {"checkpoints_abandoned", abandoned}});
    return start;
  }
  if (stored) {
    directory.cut_metrics(0);
    take_over_untrained(*stored, start.config, options, directory);
  }
  return start;
}

}  // namespace athanor::train
