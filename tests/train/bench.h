// A run's memory and its step runner on a small stream of tokens, without files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "train/lab.h"
#include "train/memory_plan.h"
#include "train/phases.h"
#include "train/step.h"

namespace athanor::train::testing {

inline Config config_with(int64_t groups, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = overrides;
  all.push_back("batch.reduction_groups=" + std::to_string(groups));
  Config config = parse_config(small_config(), "run.toml", all);
  config.model.vocab = 64;
  resolve_automatic(config);
  return config;
}

/// A stream of 40 documents of 5 to 44 tokens.
inline data::Loader make_loader(const Config& config) {
  RandomStream stream(9, 9);
  std::vector<int32_t> ids;
  std::vector<uint64_t> ends;
  for (int d = 0; d < 40; ++d) {
    const auto tokens = 5 + stream.below(40);
    for (uint64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(stream.below(64)));
    ends.push_back(ids.size());
  }
  data::PhaseData phase;
  phase.sequence_length = config.phases[0].sequence;
  phase.sources.push_back({data::make_token_source(std::move(ids), std::move(ends)), 1.0});
  return data::Loader({phase}, 1);
}

/// A run's memory and its runner.
struct Bench {
  explicit Bench(const Config& c, int threads = 1) : Bench(c, threads, nullptr) {}
  /// As a rank of `world`.
  Bench(const Config& c, comm::Communicator& world) : Bench(c, 1, &world) {}
  Bench(const Config& c, int threads, comm::Communicator* world)
      : config(c), loader(make_loader(c)), communicator(world == nullptr ? alone : *world) {
    const Threads team(threads);
    const Place place{communicator.rank(), communicator.size()};
    reserve(plan_memory(config, team, place), arenas);
    workspace = std::make_unique<Workspace>(config, place, arenas);
    runner = std::make_unique<StepRunner>(config, *workspace, place, communicator);
    ctx.emplace(team, arenas.scratch);
    workspace->parameters.initialise(*ctx, 5);
    workspace->parameters.touch();
    runner->adopt_values(*ctx);
  }
  void fetch(const StepPlan& plan) {
    const Place place{communicator.rank(), communicator.size()};
    const BatchShare share = batch_share(config, plan.sequences, place);
    workspace->batch.fetch(loader, plan, 0, share.first, share.count);
  }
  StepResult step(int64_t number) {
    const StepPlan plan = RunPlan(config).at(number);
    fetch(plan);
    return runner->run(*ctx, plan, number);
  }
  std::vector<float> gradient() const {
    const float* g = workspace->accumulators.front().as<float>();
    return {g, g + workspace->parameters.numel()};
  }
  std::vector<float> values() {
    runner->show_values(*ctx);
    std::vector<float> all;
    const model::FlatSpace& space = workspace->parameters.space();
    for (const Tensor& part : {space.rest, space.matrices}) {
      all.insert(all.end(), part.as<float>(), part.as<float>() + part.numel());
    }
    return all;
  }

  Config config;
  data::Loader loader;
  comm::Communicator alone;
  comm::Communicator& communicator;
  Arenas arenas;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<StepRunner> runner;
  std::optional<ops::Context> ctx;
};

}  // namespace athanor::train::testing
