#include "train/step.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/memory.h"
#include "base/random.h"
#include "ops/elementwise.h"
#include "train/lab.h"
#include "train/memory_plan.h"

namespace athanor::train {
namespace {

Config config_with(int64_t groups, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = overrides;
  all.push_back("batch.reduction_groups=" + std::to_string(groups));
  Config config = parse_config(testing::small_config(), "run.toml", all);
  config.model.vocab = 64;
  resolve_automatic(config);
  return config;
}

/// A stream of 40 documents of 5 to 44 tokens.
data::Loader make_loader(const Config& config) {
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
  explicit Bench(const Config& c, int threads = 1) : config(c), loader(make_loader(c)) {
    const Threads team(threads);
    reserve(plan_memory(config, team, 1), arenas);
    workspace = std::make_unique<Workspace>(config, 1, arenas);
    runner = std::make_unique<StepRunner>(config, *workspace, *communicator);
    ctx.emplace(team, arenas.scratch);
    workspace->parameters.initialise(*ctx, 5);
    workspace->parameters.touch();
  }
  StepResult step(int64_t number) {
    const StepPlan plan = RunPlan(config).at(number);
    workspace->batch.fetch(loader, plan, 0, 0, plan.sequences);
    return runner->run(*ctx, plan, number);
  }
  std::vector<float> gradient() const {
    const float* g = workspace->accumulators.front().as<float>();
    return {g, g + workspace->parameters.numel()};
  }
  std::vector<float> values() const {
    const float* p = workspace->parameters.flat().as<float>();
    return {p, p + workspace->parameters.numel()};
  }

  Config config;
  data::Loader loader;
  std::unique_ptr<comm::Communicator> communicator = comm::make_self_communicator();
  Arenas arenas;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<StepRunner> runner;
  std::optional<ops::Context> ctx;
};

class NoSink final : public model::GradientSink {
  void ready(const model::Parameter&) override {}
};

/// The gradient of sequences [first, first + count), in micro-batches of 2.
std::vector<float> gradient_of(Bench& bench, int64_t first, int64_t count, double scale) {
  std::vector<float> sum(static_cast<size_t>(bench.workspace->parameters.numel()));
  bench.workspace->parameters.set_gradients(
      Tensor::of(sum.data(), {static_cast<int64_t>(sum.size())}));
  bench.workspace->model.refresh(*bench.ctx);
  NoSink sink;
  model::Statistics statistics;
  statistics.expert_counts.assign(
      static_cast<size_t>(bench.workspace->geometry.layers * bench.workspace->geometry.classes()),
      0);
  for (int64_t at = first; at < first + count; at += bench.config.batch.micro_batch) {
    bench.workspace->model.forward_backward(
        *bench.ctx, bench.arenas.activations,
        bench.workspace->batch.micro_batch(at, bench.config.batch.micro_batch), scale, sink,
        statistics);
  }
  return sum;
}

std::vector<float> added(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

class ReductionGroups : public ::testing::TestWithParam<int64_t> {};

TEST_P(ReductionGroups, GradientIsTheBinaryTreeOfTheGroups) {
  const int64_t groups = GetParam();
  const Config config = config_with(groups, {"batch.micro_batch=1"});
  Bench bench(config);
  const StepPlan plan = RunPlan(config).at(0);
  bench.workspace->batch.fetch(bench.loader, plan, 0, 0, plan.sequences);
  const double scale = 1.0 / static_cast<double>(bench.workspace->batch.targets());
  const int64_t size = plan.sequences / groups;
  std::vector<std::vector<float>> level;
  for (int64_t g = 0; g < groups; ++g) level.push_back(gradient_of(bench, g * size, size, scale));
  while (level.size() > 1) {
    std::vector<std::vector<float>> next;
    for (size_t i = 0; i < level.size(); i += 2) next.push_back(added(level[i], level[i + 1]));
    level = std::move(next);
  }
  ASSERT_TRUE(bench.step(0).applied);
  EXPECT_EQ(bench.gradient(), level[0]);
  EXPECT_EQ(bench.workspace->accumulators.size(),
            static_cast<size_t>(1 + std::countr_zero(static_cast<uint64_t>(groups))));
}

INSTANTIATE_TEST_SUITE_P(PowersOfTwo, ReductionGroups, ::testing::Values(1, 2, 4, 8));

TEST(StepRunner, TheLossIsTheMeanOverTargetsWhateverTheGroups) {
  Bench one(config_with(1));
  Bench four(config_with(4));
  const StepResult a = one.step(0);
  const StepResult b = four.step(0);
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  EXPECT_NEAR(a.loss, std::log(64.0), 0.2) << "an untrained model knows nothing";
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_LT(a.targets, 8 * 32) << "the last token of a document is no target";
  EXPECT_EQ(one.runner->expert_counts(), four.runner->expert_counts());
  const int64_t tokens = std::accumulate(one.runner->expert_counts().begin(),
                                         one.runner->expert_counts().end(), int64_t{0});
  EXPECT_EQ(tokens, 2 * 8 * 32) << "every token of every layer chose a class";
}

TEST(StepRunner, BitsDoNotDependOnThreads) {
  Bench one(config_with(2), 1);
  Bench two(config_with(2), 2);
  for (int64_t step = 0; step < 3; ++step) {
    one.step(step);
    two.step(step);
  }
  EXPECT_EQ(one.values(), two.values());
}

TEST(StepRunner, ANonFiniteGradientChangesNothing) {
  Bench bench(config_with(2));
  bench.step(0);
  // A value that makes the loss infinite.
  float& value = bench.workspace->parameters.flat().as<float>()[7];
  value = std::numeric_limits<float>::infinity();
  bench.workspace->parameters.touch();
  const std::vector<float> before = bench.values();
  const StepResult result = bench.step(1);
  EXPECT_FALSE(result.applied);
  EXPECT_EQ(bench.values(), before);
}

TEST(StepRunner, TheClippedUpdateIsTheSameForEveryLargeGradient) {
  // AdamW's first step is the sign of the gradient: clipping shows in its second moment alone.
  Config config = config_with(1, {"optimizer.kind=adamw", "optimizer.clip=1e-3"});
  Bench bench(config);
  const StepResult result = bench.step(0);
  ASSERT_GT(result.gradient_norm, 1e-2);
  double squares = 0;
  for (const optim::StateTensor& tensor : bench.workspace->optimizer.state()) {
    if (!tensor.name.starts_with("optimizer.exp_avg_sq.")) continue;
    for (int64_t i = 0; i < tensor.value.numel(); ++i) squares += tensor.value.as<float>()[i];
  }
  EXPECT_NEAR(std::sqrt(squares / 0.05), 1e-3, 1e-6)
      << "(1 − beta2) times the clipped norm squared";
}

/// The peaks of real steps are what was planned, and none of the planned arenas is larger than needed.
TEST(MemoryPlan, IsWhatTheArenasThenHoldToTheByte) {
  for (const char* recompute : {"none", "all", "[1]"}) {
    const Config config = config_with(4, {std::string("model.recompute=") + recompute});
    const MemoryPlan plan = plan_memory(config, Threads(2), 1);
    Bench bench(config, 2);
    bench.step(0);
    bench.step(1);
    const auto arenas = bench.arenas.all();
    for (size_t i = 0; i < arenas.size(); ++i) {
      EXPECT_EQ(arenas[i]->capacity(), plan.arenas[i].bytes) << plan.arenas[i].name;
      EXPECT_LE(arenas[i]->peak(), plan.arenas[i].bytes) << plan.arenas[i].name;
    }
    for (const char* exact :
         {"parameters", "packed weights", "gradients", "optimizer state", "batch"}) {
      const auto arena = std::find_if(arenas.begin(), arenas.end(),
                                      [&](const Arena* a) { return a->name() == exact; });
      EXPECT_EQ((*arena)->peak(), (*arena)->capacity()) << exact;
    }
  }
}

TEST(MemoryPlan, RecomputationSavesActivations) {
  const auto activations = [](const char* recompute) {
    Config config = config_with(1, {std::string("model.recompute=") + recompute, "model.layers=6"});
    for (const ArenaPlan& arena : plan_memory(config, Threads(1), 1).arenas) {
      if (arena.name == "activations") return arena.bytes;
    }
    return uint64_t{0};
  };
  EXPECT_LT(activations("all"), activations("[0, 1, 2]"));
  EXPECT_LT(activations("[0, 1, 2]"), activations("none"));
}

TEST(MemoryPlan, AConfigThatDoesNotFitIsRefusedWithFigures) {
  Config config = config_with(1, {"model.hidden=65536", "model.expert_inner=65536",
                                  "model.experts=256", "model.layers=100"});
  const MemoryPlan plan = plan_memory(config, Threads(1), 1);
  EXPECT_GT(plan.total(), uint64_t{1} << 42);
  Arenas arenas;
  try {
    reserve(plan, arenas);
    FAIL() << "reserved " << plan.total();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kResources);
    EXPECT_NE(std::string(error.what()).find(size_text(plan.total())), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace athanor::train
