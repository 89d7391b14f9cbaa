// What measurements ask of a step beyond training: equal loads, gradients alone, and a trace that changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "ops/trace.h"
#include "train/lab.h"
#include "train/memory_plan.h"
#include "train/step.h"

namespace athanor::train {
namespace {

Config small() {
  Config config = parse_config(testing::small_config(), "run.toml", {"model.experts=4"});
  config.model.vocab = 64;
  resolve_automatic(config);
  return config;
}

data::Loader random_tokens(const Config& config) {
  RandomStream stream(9, 9);
  std::vector<int32_t> ids(1000);
  for (int32_t& id : ids) id = static_cast<int32_t>(stream.below(64));
  data::PhaseData phase;
  phase.sequence_length = config.phases[0].sequence;
  phase.sources.push_back({data::make_token_source(ids, {ids.size()}), 1.0});
  return {{phase}, 1};
}

/// A run's memory and its runner, with one step's tokens fetched.
struct Lab {
  explicit Lab(bool balanced = false) : loader(random_tokens(config)) {
    reserve(plan_memory(config, Threads(1), Place{}), arenas);
    workspace = std::make_unique<Workspace>(config, Place{}, arenas, balanced);
    runner = std::make_unique<StepRunner>(config, *workspace, Place{}, communicator);
    ctx.emplace(Threads(1), arenas.scratch);
    workspace->parameters.initialise(*ctx, 5);
    workspace->parameters.touch();
    workspace->batch.fetch(loader, plan, 0, 0, plan.sequences);
  }
  static std::vector<float> copy(const Tensor& t) {
    return {t.as<float>(), t.as<float>() + t.numel()};
  }
  std::vector<float> values() const { return copy(workspace->parameters.flat()); }
  std::vector<float> gradient() const { return copy(workspace->accumulators.front()); }

  Config config = small();
  StepPlan plan = RunPlan(config).at(0);
  data::Loader loader;
  comm::Communicator communicator;
  Arenas arenas;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<StepRunner> runner;
  std::optional<ops::Context> ctx;
};

TEST(MeasuredStep, BalancedRoutingGivesEveryExpertAsManyTokens) {
  Lab natural;
  natural.runner->run(*natural.ctx, natural.plan, 0);
  Lab balanced(true);
  const StepResult result = balanced.runner->run(*balanced.ctx, balanced.plan, 0);
  EXPECT_TRUE(result.applied);
  const std::vector<int64_t> layer = {64, 64, 64, 64, 0};  // 8 x 32 tokens, none skipped
  for (int64_t l = 0; l < 2; ++l) {
    const auto begin = balanced.runner->expert_counts().begin() + l * 5;
    EXPECT_EQ(std::vector<int64_t>(begin, begin + 5), layer);
  }
  EXPECT_NE(natural.runner->expert_counts(), balanced.runner->expert_counts());
}

TEST(MeasuredStep, GradientsAloneAreThoseOfAStepAndMoveNothing) {
  Lab whole;
  const StepResult stepped = whole.runner->run(*whole.ctx, whole.plan, 0);
  Lab alone;
  const std::vector<float> before = alone.values();
  const StepResult result = alone.runner->run_gradients(*alone.ctx, alone.plan);
  EXPECT_EQ(result.loss, stepped.loss);
  EXPECT_EQ(alone.gradient(), whole.gradient());
  EXPECT_EQ(alone.values(), before);
  EXPECT_NE(whole.values(), before);
}

TEST(MeasuredStep, ATraceSeesEveryPartAndChangesNoBit) {
  Lab plain;
  plain.runner->run(*plain.ctx, plain.plan, 0);
  Lab traced;
  ops::Trace trace;
  traced.ctx->set_trace(&trace);
  traced.runner->run(*traced.ctx, traced.plan, 0);
  EXPECT_EQ(traced.values(), plain.values());

  std::set<std::string_view> parts;
  for (const ops::TraceEntry& entry : trace.entries()) parts.insert(entry.part);
  const std::set<std::string_view> expected = {"packing",
                                               "embedding",
                                               "embedding backward",
                                               "attention",
                                               "attention backward",
                                               "router",
                                               "router backward",
                                               "experts",
                                               "experts backward",
                                               "residual",
                                               "residual backward",
                                               "head",
                                               "gradients",
                                               "optimizer"};
  EXPECT_EQ(parts, expected);
}

// Of 8 sequences of 32 tokens with D 32, heads 2 and 2 of 8, 4 experts of inner width 24 and a router
// of width 8, all equally loaded: what the products of one op must come to over a whole step.
TEST(MeasuredStep, TheFlopsOfAStepAreThoseOfItsGeometry) {
  Lab lab(true);
  ops::Trace trace;
  lab.ctx->set_trace(&trace);
  lab.runner->run_gradients(*lab.ctx, lab.plan);
  const auto sum = [&](std::string_view op) {
    double flops = 0;
    for (const ops::TraceEntry& entry : trace.entries()) {
      if (entry.op == op) flops += entry.flops();
    }
    return flops;
  };
  constexpr double kTokens = 256, kLayers = 2;
  constexpr double kExpert = 32 * 48 + 24 * 32;
  EXPECT_EQ(sum("grouped_linear"), 2 * 2.0 * kTokens * kLayers * kExpert);
  EXPECT_EQ(sum("grouped_accumulate_outer"), 2.0 * kTokens * kLayers * kExpert);
  EXPECT_EQ(sum("vocabulary_loss"), 3 * 2.0 * kTokens * 64 * 32);
  constexpr double kPairs = 8.0 * 32 * 33 / 2;
  EXPECT_EQ(sum("attention"), kLayers * kPairs * 2 * 2.0 * 16);
  EXPECT_EQ(sum("attention_backward"), kLayers * kPairs * 5 * 2.0 * 16);
}

}  // namespace
}  // namespace athanor::train
