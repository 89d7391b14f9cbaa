#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "checkpoint/open_model.h"
#include "comm/agree.h"
#include "comm/beating.h"
#include "data/text_settings.h"
#include "ops/elementwise.h"
#include "ops/fallback.h"
#include "ops/matrix.h"
#include "train/budget.h"

namespace athanor::train {
namespace {

constexpr double kCeilingSeconds = 0.05;  // its median is that of hundreds of products
constexpr int kMostRollBacks = 3;
constexpr double kDiskBytesPerSecond =
    3e8;  // a checkpoint written, checksummed and synced: a slow disk
constexpr double kBudgetReserve = 0.02;  // of the budget, for what no figure foretells
constexpr double kPaceWeight = 0.02;     // of the last step in the running pace: about fifty steps

std::vector<checkpoint::SideFile> tokenizer_files(const data::Tokenizer& tokenizer,
                                                  const Config& config) {
  const data::TextSettings settings{.bos = config.data.bos, .sequence = longest_sequence(config)};
  std::vector<checkpoint::SideFile> files;
  for (auto& [name, content] : data::model_tokenizer_files(tokenizer, settings)) {
    files.push_back({name, content});
  }
  return files;
}

/// 9120 → "9,120".
std::string grouped(double value) {
  std::string digits = std::to_string(std::llround(value));
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), 1, ',');
  }
  return digits;
}

}  // namespace

Trainer::Trainer(Config config, RunDirectory& directory, PreparedData data,
                 const StopSignals& signals, comm::Communicator& communicator)
    : config_(std::move(config)),
      directory_(directory),
      data_(std::move(data)),
      signals_(signals),
      plan_(config_),
      loader_(data_.phases, static_cast<uint64_t>(config_.seed)),
      validation_(config_, *data_.tokenizer, data_.held_out),
      communicator_(communicator),
      side_files_(tokenizer_files(*data_.tokenizer, config_)),
      guard_(config_.faults),
      watch_(communicator, config_.comm.hash_interval) {
  const Threads threads;
  reserve(plan_memory(config_, threads, place()), arenas_);
  workspace_ = std::make_unique<Workspace>(config_, place(), arenas_);
  runner_ = std::make_unique<StepRunner>(config_, *workspace_, place(), communicator_);
  ctx_.emplace(threads, arenas_.scratch);
  if (validation_.empty() && config_.validation.interval_steps > 0) {
    directory_.event("no validation", 0, {{"reason", "no held-out documents"}});
  }
  report_fallbacks();
  measure_ceiling();
}

void Trainer::report_fallbacks() {
  if (ops::fallback_count() == fallbacks_reported_) return;
  const std::vector<ops::Fallback> all = ops::fallbacks();
  for (; fallbacks_reported_ < all.size(); ++fallbacks_reported_) {
    const ops::Fallback& fallback = all[fallbacks_reported_];
    directory_.event(
        "slower kernels", state_.step,
        {{"op", fallback.op}, {"kernels", fallback.kernel}, {"reason", fallback.reason}});
  }
}

void Trainer::measure_ceiling() {
  const DType compute = ops::act_dtype(workspace_->parameters.precision());
  ceiling_flops_ = ops::measure_matrix_ceiling(*ctx_, compute, kCeilingSeconds).cache_flops;
  directory_.event("ceiling measured", 0,
                   {{"dtype", name_of(compute)},
                    {"threads", ctx_->threads().count()},
                    {"kernels", ops::name_of(ctx_->isa())},
                    {"flops_per_second", ceiling_flops_}});
}

model::ModelConfig Trainer::model_with(double theta) const {
  model::ModelConfig model = workspace_->geometry;
  const data::SpecialIds ids = data_.tokenizer->special();
  model.bos = ids.bos;
  model.eos = ids.eos;
  model.pad = ids.pad;
  model.theta = theta;
  return model;
}

void Trainer::draw_weights() {
  for (const optim::StateTensor& t : workspace_->optimizer.state()) ops::fill(*ctx_, t.value, 0.0);
  for (const optim::StateTensor& t : workspace_->controller.state()) ops::fill(*ctx_, t.value, 0.0);
  workspace_->parameters.initialise(*ctx_, static_cast<uint64_t>(config_.seed));
  if (!config_.run.init.empty()) {
    checkpoint::open_model(config_.run.init).load(workspace_->parameters);
  }
  workspace_->parameters.touch();
  runner_->adopt_values(*ctx_);
}

void Trainer::fit_budget() {
  MeasuredPace pace;
  budget_clock_.emplace();
  draw_weights();
  if (directory_.leads()) log::note("measuring how fast this machine trains");
  // A first step warms caches and page tables; then as many as give a steady figure, on weights that nothing else sees.
  const double enough = config_.run.time_budget_seconds * 0.03;
  double seconds = 0;
  int64_t tokens = 0;
  for (int64_t step = 0; step < plan_.steps() && (step < 3 || seconds < enough); ++step) {
    if (stop_requested()) return;
    const StepMetrics metrics = train_step(plan_.at(step));
    if (step == 0 && plan_.steps() > 1) continue;
    seconds += leaders(metrics.seconds);
    tokens += metrics.plan.tokens();
  }
  pace.seconds_per_token = seconds / static_cast<double>(tokens);
  if (!validation_.empty()) {
    const Stopwatch watch;
    StepMetrics ignored;
    ignored.plan = plan_.at(0);
    validate(ignored, false);
    pace.seconds_per_validation = leaders(watch.seconds());
  }
  const size_t bytes = arenas_.parameters.used() + arenas_.optimizer.used();
  pace.seconds_per_checkpoint = static_cast<double>(bytes) / kDiskBytesPerSecond;
  pace.spent_seconds = leaders(budget_clock_->seconds());
  fit_to_budget(config_, pace);
  plan_ = RunPlan(config_);
  seconds_per_step_ = pace.seconds_per_token * static_cast<double>(plan_.at(0).tokens());
  ending_seconds_ = 2 * pace.seconds_per_checkpoint + pace.seconds_per_validation;
  directory_.write_config(to_toml(config_));
  directory_.event("fitted to the time budget", 0,
                   {{"seconds", config_.run.time_budget_seconds},
                    {"tokens_per_second", 1 / pace.seconds_per_token},
                    {"tokens", plan_.tokens()},
                    {"steps", plan_.steps()}});
}

void Trainer::keep_budget(double step_seconds) {
  if (!budget_clock_ || state_.step >= plan_.steps() || !config_.batch.ramp.empty()) return;
  seconds_per_step_ += kPaceWeight * (leaders(step_seconds) - seconds_per_step_);
  const StepPlan next = plan_.at(state_.step);
  Phase& phase = config_.phases.back();
  if (&config_.phases[static_cast<size_t>(next.phase)] != &phase) return;
  const int64_t planned = plan_.phase_steps(next.phase);
  const double left = config_.run.time_budget_seconds * (1 - kBudgetReserve) -
                      leaders(budget_clock_->seconds()) - ending_seconds_;
  const int64_t steps =
      refitted_steps({phase.schedule, phase.learning_rate, phase.final_learning_rate,
                      phase.warmup_steps, planned, phase.decay_share},
                     next.step_in_phase, left / seconds_per_step_);
  if (steps == planned) return;
  phase.tokens = steps * next.tokens();
  plan_ = RunPlan(config_);
  directory_.write_config(to_toml(config_));  // before any step that goes by it
  directory_.event("fitted to the time budget again", state_.step,
                   {{"seconds_per_step", seconds_per_step_},
                    {"tokens", plan_.tokens()},
                    {"steps", plan_.steps()}});
}

int64_t Trainer::target(std::optional<int64_t> stop) const {
  return stop ? std::min(*stop, plan_.steps()) : plan_.steps();
}

void Trainer::begin() {
  if (config_.run.time_budget_seconds > 0 && !config_.run.tokens_fitted) fit_budget();
  draw_weights();
  state_ = RunState();
  if (config_.run.init_optimizer == InitOptimizer::kGiven) {
    const fs::path given = checkpoint::open_model(config_.run.init).directory;
    state_.applied = load_optimizer_state(checkpoint::Checkpoint::open(given), *workspace_);
  }
  guard_.restore(state_.guard);
}

void Trainer::resume(const checkpoint::Checkpoint& checkpoint) {
  state_ = load_snapshot(checkpoint, *workspace_, data_.identity);
  runner_->adopt_values(*ctx_);
  guard_.restore(state_.guard);
  saved_step_ = state_.step;
  watch_.begin_at(state_.step);
}

StepMetrics Trainer::train_step(const StepPlan& plan) {
  StepMetrics metrics;
  metrics.plan = plan;
  metrics.phase = config_.phases[static_cast<size_t>(plan.phase)].name;
  const Stopwatch watch;
  communicator_.pulse().enter(comm::Phase::kData, plan.step + 1);
  const BatchShare share = batch_share(config_, plan.sequences, place());
  workspace_->batch.fetch(loader_, plan, state_.offset_in(plan.phase), share.first, share.count);
  metrics.data_wait_seconds = watch.seconds();
  metrics.result = runner_->run(*ctx_, plan, state_.applied);
  metrics.seconds = watch.seconds();

  const auto tokens = static_cast<double>(plan.tokens());
  metrics.tokens_per_second = tokens / metrics.seconds;
  const double flops =
      tokens * model::training_flops_per_token(workspace_->geometry, workspace_->batch.mean_keys());
  metrics.ceiling_share = flops / (metrics.seconds * ceiling_flops_ * communicator_.size());
  metrics.memory_bytes = resident_bytes();
  metrics.epochs = loader_.epochs(
      plan.phase, 0,
      plan.first_sample + state_.offset_in(plan.phase) + static_cast<uint64_t>(plan.sequences));
  const std::span<const int64_t> counts = runner_->expert_counts();
  const auto classes = static_cast<size_t>(workspace_->geometry.classes());
  for (size_t at = 0; at < counts.size(); at += classes) {
    metrics.experts.push_back(expert_load(counts.subspan(at, classes)));
  }
  return metrics;
}

void Trainer::validate(StepMetrics& metrics, bool report) {
  communicator_.pulse().enter(comm::Phase::kValidate, metrics.plan.step + 1);
  const comm::Beating beating(communicator_);
  workspace_->model.refresh(*ctx_);
  metrics.validation =
      validation_.run(*ctx_, workspace_->model, arenas_.activations, metrics.plan.sequence);
  if (report && directory_.leads()) {
    log::note(fmt::format("step {}: validation loss {:.4f}, {:.4f} bits per byte",
                          metrics.plan.step + 1, metrics.validation->loss,
                          metrics.validation->bits_per_byte));
  }
}

std::string Trainer::standing() const {
  if (saved_step_ < 0) return "no checkpoint was saved yet";
  const fs::path path = directory_.checkpoints() / checkpoint::checkpoint_name(saved_step_);
  return fmt::format("the run stands at {}", path.string());
}

void Trainer::save(bool last) {
  communicator_.pulse().enter(comm::Phase::kSave, state_.step);
  const comm::Beating beating(communicator_);
  state_.guard = guard_.state();
  const double theta =
      state_.step == 0 ? config_.phases.front().theta : plan_.at(state_.step - 1).theta;
  try {
    const Stopwatch watch;
    const fs::path path = save_snapshot(directory_, config_, state_, *workspace_, model_with(theta),
                                        data_.identity, side_files_, communicator_);
    saved_step_ = state_.step;
    directory_.event(
        "checkpoint saved", state_.step,
        {{"path", fs::relative(path, directory_.path()).string()}, {"seconds", watch.seconds()}});
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBug) throw;
    if (last) {
      throw common(resource_error(
          fmt::format("the last checkpoint could not be saved: {}; {}", error.what(), standing())));
    }
    if (directory_.leads())
      log::warning(
          fmt::format("checkpoint of step {} not saved ({}); the next interval tries again",
                      state_.step, error.what()));
    directory_.event("checkpoint failed", state_.step, {{"reason", error.what()}});
    return;
  }
  if (guard_.suspicious()) return;  // while the numbers look bad the older ones are the good ones
  if (!directory_.leads()) return;
  try {
    checkpoint::prune(directory_.checkpoints(), static_cast<int>(config_.checkpoint.keep));
  } catch (const Error& error) {  // what was saved stands
    log::warning(fmt::format("old checkpoints were not removed ({})", error.what()));
    directory_.event("checkpoints not removed", state_.step, {{"reason", error.what()}});
  }
}

void Trainer::roll_back(const std::string& reason) {
  directory_.event("diverged", state_.step, {{"reason", reason}});
  const std::string where = fmt::format("step {}: {}", state_.step, reason);
  if (config_.faults.on_divergence == OnDivergence::kStop) {
    throw common(numbers_error(where + "; " + standing()));
  }
  if (++roll_backs_ > kMostRollBacks) {
    throw common(numbers_error(
        fmt::format("{}, again after {} roll-backs; {}", where, kMostRollBacks, standing())));
  }
  const int64_t first_bad = state_.step - std::max(guard_.state().spikes, guard_.state().skips);
  const StepPlan bad = plan_.at(state_.step - 1);
  const uint64_t read =
      bad.first_sample + state_.offset_in(bad.phase) + static_cast<uint64_t>(bad.sequences);
  communicator_.pulse().enter(comm::Phase::kLoad, state_.step);
  const comm::Beating beating(communicator_);
  const std::string good = comm::lead(communicator_, [&] {
    checkpoint::abandon(directory_.checkpoints(), first_bad);
    const auto latest = checkpoint::latest_valid(directory_.checkpoints());
    if (!latest.checkpoint) throw numbers_error(where + "; there is no checkpoint to go back to");
    return latest.checkpoint->path().string();
  });
  comm::agree(communicator_, [&] { resume(checkpoint::Checkpoint::open(good)); });
  directory_.cut_metrics(state_.step);
  // What made it diverge is stepped over: the same phase goes on behind the last sample that was read.
  const StepPlan next = plan_.at(state_.step);
  if (next.phase == bad.phase) {
    state_.offset_phase = next.phase;
    state_.sample_offset = read - next.first_sample;
  }
  directory_.event("rolled back", state_.step, {{"samples_stepped_over", state_.sample_offset}});
  if (directory_.leads())
    log::warning(fmt::format("{}: rolled back to step {}", where, state_.step));
}

void Trainer::run(std::optional<int64_t> stop) {
  const int64_t first = state_.step;
  if (first == target(stop) && saved_step_ == first) return;
  // Here: a run with nothing left to do adds no file.
  std::optional<log::Progress> progress;
  if (directory_.leads()) {
    tensorboard_.emplace(directory_.tensorboard());
    progress.emplace("train", "steps", target(stop), first);
  }
  double pace = 0;
  try {
    while (state_.step < target(stop)) {
      const Stopwatch watch;
      const StepPlan plan = plan_.at(state_.step);
      StepMetrics metrics = train_step(plan);
      ++state_.step;
      report_fallbacks();
      if (metrics.result.applied) {
        ++state_.applied;
      } else {
        directory_.event(
            "step skipped", state_.step,
            {{"loss", metrics.result.loss}, {"grad_norm", metrics.result.gradient_norm}});
      }
      if (!ranks_agree()) continue;
      const std::string diverged =
          guard_.observe(plan.phase, metrics.result.loss, metrics.result.applied);
      metrics.skipped_steps = guard_.state().skipped;

      const auto due = [&](int64_t interval) {
        return interval > 0 && state_.step % interval == 0;
      };
      const bool last = state_.step == target(stop);
      if (!validation_.empty() &&
          (due(config_.validation.interval_steps) || state_.step == plan_.steps())) {
        validate(metrics, true);
      }
      directory_.metrics(to_json_line(metrics));
      if (tensorboard_) tensorboard_->write(state_.step, to_scalars(metrics));
      pace = pace == 0 ? metrics.tokens_per_second : 0.9 * pace + 0.1 * metrics.tokens_per_second;
      if (progress) {
        progress->set_total(target(stop));  // a time budget may have moved it
        progress->update(state_.step, fmt::format("loss {:.3f} · {} tok/s · {:.0f} % of ceiling",
                                                  metrics.result.loss, grouped(pace),
                                                  metrics.ceiling_share * 100));
      }

      if (!diverged.empty()) {
        roll_back(diverged);
        continue;
      }
      if (stop_requested() && !last) {
        save(true);
        directory_.event("stopped by signal", state_.step, {{"signal", signals_.name()}});
        throw common(Error(ExitCode::kStopped,
                           fmt::format("stopped by {} after step {}; {}; the same command goes on",
                                       signals_.name(), state_.step, standing())));
      }
      // During a spike a save would put a good checkpoint out: it waits for the loss to come back.
      if (last || (due(config_.checkpoint.interval_steps) && !guard_.suspicious())) save(last);
      keep_budget(watch.seconds());
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kResources ||
        std::string(error.what()).find(standing()) != std::string::npos) {
      throw;
    }
    throw resource_error(fmt::format("{}; {}", error.what(), standing()));
  }
  if (progress) progress->finish();
}

fs::path Trainer::export_model() {
  runner_->show_values(*ctx_);
  const comm::Beating beating(communicator_);
  return comm::lead(communicator_, [&] {
    checkpoint::ExportOptions options;
    options.dtype = ops::act_dtype(workspace_->parameters.precision());
    const double theta = plan_.at(std::max<int64_t>(state_.step - 1, 0)).theta;
    checkpoint::export_model(directory_.model(), model_with(theta),
                             checkpoint::weights_of(workspace_->parameters), side_files_, options);
    return directory_.model().string();
  });
}

}  // namespace athanor::train
