#include "advisor/step_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "data/loader.h"
#include "train/memory_plan.h"
#include "train/phases.h"
#include "train/prepare.h"
#include "train/startup.h"
#include "train/step.h"

namespace athanor::advisor {
namespace {

using Clock = std::chrono::steady_clock;

train::Config config_of(const StepBenchOptions& options) {
  train::Config config = train::read_config(options.config, options.overrides);
  if (options.optimizer == StepOptimizer::kAdamW) {
    config.optimizer.kind = optim::OptimizerKind::kAdamW;
  } else if (options.optimizer == StepOptimizer::kMuon) {
    config.optimizer.kind = optim::OptimizerKind::kMuon;
  }
  train::resolve_vocab(config, train::expected_vocab(config));
  return config;
}

/// Random tokens, one document without an end: every token sees all before it in its sequence.
data::Loader random_tokens(const train::Config& config, const train::StepPlan& plan) {
  constexpr int64_t kMost = int64_t{1} << 22;  // more tokens than that are no different
  const int64_t wanted = std::min(plan.tokens(), std::max(kMost, plan.sequence)) + 1;
  RandomStream random(static_cast<uint64_t>(config.seed), stream_of("bench step"));
  std::vector<int32_t> ids(static_cast<size_t>(wanted));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(random.uniform() * static_cast<double>(config.model.vocab));
  }
  const auto end = static_cast<uint64_t>(ids.size());
  data::PhaseData phase;
  phase.sequence_length = plan.sequence;
  phase.sources.push_back({data::make_token_source(std::move(ids), {end}), 1.0});
  return {{std::move(phase)}, static_cast<uint64_t>(config.seed)};
}

/// A training run's workspace, without its folder, its data and its checkpoints.
class Bench {
 public:
  Bench(const train::Config& config, const StepBenchOptions& options)
      : plan_(config),
        loader_(random_tokens(config, plan_.at(0))),

        updates_(options.optimizer != StepOptimizer::kNone) {
    const Threads threads;
    train::reserve(train::plan_memory(config, threads, train::Place{}), arenas_);
    workspace_ = std::make_unique<train::Workspace>(config, train::Place{}, arenas_,
                                                    options.balanced_routing);
    runner_ =
        std::make_unique<train::StepRunner>(config, *workspace_, train::Place{}, communicator_);
    ctx_.emplace(threads, arenas_.scratch);
    workspace_->parameters.initialise(*ctx_, static_cast<uint64_t>(config.seed));
    workspace_->parameters.touch();
    ctx_->set_trace(&trace_);
  }

  const ops::Context& context() const { return *ctx_; }
  const train::Workspace& workspace() const { return *workspace_; }

  TracedRun step(int64_t number) {
    const train::StepPlan plan = plan_.at(std::min(number, plan_.phase_steps(0) - 1));
    trace_.clear();
    const Clock::time_point start = Clock::now();
    {
      const ops::PartScope part(*ctx_, "data");
      const ops::TraceSpan span(*ctx_, "fetch", [&] {
        return ops::OpWork{.shape = {plan.sequences, plan.sequence},
                           .bytes = 8.0 * static_cast<double>(plan.tokens())};
      });
      workspace_->batch.fetch(loader_, plan, 0, 0, plan.sequences);
    }
    const train::StepResult result =
        updates_ ? runner_->run(*ctx_, plan, number) : runner_->run_gradients(*ctx_, plan);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (updates_ && !result.applied) {
      throw numbers_error(
          fmt::format("step {} gave a loss of {}: nothing to measure", number + 1, result.loss));
    }
    return {seconds, trace_.entries(), {}};
  }

 private:
  train::RunPlan plan_;
  data::Loader loader_;
  comm::Communicator communicator_;
  bool updates_;
  train::Arenas arenas_;
  std::unique_ptr<train::Workspace> workspace_;
  std::unique_ptr<train::StepRunner> runner_;
  std::optional<ops::Context> ctx_;
  ops::Trace trace_;
};

}  // namespace

StepReport measure_step(const StepBenchOptions& options) {
  if (options.steps < 1) {
    throw usage_error(fmt::format("--steps {} must be at least 1", options.steps));
  }
  const train::Config config = config_of(options);
  const train::StepPlan plan = train::RunPlan(config).at(0);
  Bench bench(config, options);
  CeilingMeter meter(bench.context().threads());

  log::Progress progress("bench step", "steps", options.steps + 1);
  bench.step(0);
  std::vector<TracedRun> runs;
  std::vector<Ceilings> ceilings = {meter.measure()};
  for (int64_t step = 1; step <= options.steps; ++step) {
    progress.update(step);
    runs.push_back(bench.step(step));
    ceilings.push_back(meter.measure());
    runs.back().ceilings = between(*(ceilings.end() - 2), ceilings.back());
  }
  progress.finish();

  const std::vector<TracedRun> counted = middle_runs(std::move(runs));
  StepReport report;
  report.optimizer = options.optimizer == StepOptimizer::kNone              ? "none"
                     : config.optimizer.kind == optim::OptimizerKind::kMuon ? "muon"
                                                                            : "adamw";
  report.balanced_routing = options.balanced_routing;
  report.precision = ops::name_of(train::precision_of(config));
  report.threads = bench.context().threads().count();
  report.isa = bench.context().isa();
  report.parameters = model::count_parameters(bench.workspace().geometry);
  report.steps = options.steps;
  report.tokens = plan.tokens();
  report.micro_batch = config.batch.micro_batch;
  report.sequence = plan.sequence;
  report.ceilings = median(ceilings);
  report.table = tabulate(counted);
  const auto tokens = static_cast<double>(report.tokens);
  report.tokens_per_second = tokens / report.table.seconds;
  report.useful_flops =
      tokens * model::training_flops_per_token(bench.workspace().geometry,
                                               bench.workspace().batch.mean_keys());
  const DType compute = ops::act_dtype(train::precision_of(config));
  double could = 0;  // FLOPs that the ceiling could have done in the counted steps
  for (const TracedRun& run : counted) could += run.seconds * run.ceilings.flops(compute);
  report.ceiling_share = report.useful_flops * static_cast<double>(counted.size()) / could;
  return report;
}

std::string to_text(const StepReport& report) {
  const int64_t sequences = report.tokens / report.sequence;
  std::string text = fmt::format(
      "{:.0f} tokens/s, {:.1f} % of the matrix ceiling in useful FLOPs ({:.1f} GFLOP a step)\n",
      report.tokens_per_second, report.ceiling_share * 100, report.useful_flops / 1e9);
  text += fmt::format(
      "{:.2f} s a step of {} x {} tokens in micro-batches of {} sequences; {}, optimizer {}, "
      "routing "
      "{}, {} parameters, {} active\n",
      report.step_seconds(), sequences, report.sequence, report.micro_batch, report.precision,
      report.optimizer, report.balanced_routing ? "balanced" : "natural", report.parameters.total,
      report.parameters.active_with_head);
  text += fmt::format(
      "ceilings: bf16 {:.0f} GFLOP/s, fp32 {:.0f} GFLOP/s, memory {:.1f} GB/s read; kernels {}, {} "
      "threads; the middle half of {} steps by time, ceilings measured around each\n\n",
      report.ceilings.bf16_flops / 1e9, report.ceilings.f32_flops / 1e9,
      report.ceilings.read_bytes / 1e9, ops::name_of(report.isa), report.threads, report.steps);
  return text + to_text(report.table, "step");
}

}  // namespace athanor::advisor
