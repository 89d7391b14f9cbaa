#include "train/step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/memory.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

/// The gradient of sequences [first, first + count), in the config's micro-batches.
std::vector<float> gradient_of(Bench& bench, int64_t first, int64_t count, double scale,
                               model::Statistics& statistics) {
  std::vector<float> sum(static_cast<size_t>(bench.workspace->parameters.numel()));
  bench.workspace->parameters.set_gradients(
      Tensor::of(sum.data(), {static_cast<int64_t>(sum.size())}));
  bench.workspace->model.refresh(*bench.ctx);
  model::GradientSink sink;
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
  model::Statistics statistics;
  for (int64_t g = 0; g < groups; ++g) {
    level.push_back(gradient_of(bench, g * size, size, scale, statistics));
  }
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
  Bench untrained(config_with(1));
  untrained.fetch(RunPlan(untrained.config).at(0));
  model::Statistics statistics;
  gradient_of(untrained, 0, 8, 1.0, statistics);
  EXPECT_NEAR(a.loss, statistics.loss_sum / static_cast<double>(a.targets), 1e-6);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_LT(a.targets, 8 * 32) << "the last token of a document is no target";
  EXPECT_EQ(one.runner->expert_counts(), four.runner->expert_counts());
  const int64_t tokens = std::accumulate(one.runner->expert_counts().begin(),
                                         one.runner->expert_counts().end(), int64_t{0});
  EXPECT_EQ(tokens, 2 * 8 * 32) << "every token of every layer chose a class";
}

TEST(StepRunner, AStepRaisesTheVersionThatWeightsArePackedBy) {
  Bench bench(config_with(1));
  const uint64_t before = bench.workspace->parameters.version();
  bench.step(0);
  EXPECT_GT(bench.workspace->parameters.version(), before)
      << "the model would go on with old packed weights";
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

TEST(StepRunner, ABadLossAloneOrABadGradientAloneChangesNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Bench bench(config_with(2));
  const StepPlan plan = RunPlan(bench.config).at(0);
  bench.fetch(plan);
  const std::vector<float> before = bench.values();
  const StepResult good = bench.runner->run_gradients(*bench.ctx, plan);
  float& element = bench.workspace->accumulators.front().as<float>()[before.size() / 2];
  const float kept = element;
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    StepResult loss = good;
    loss.loss = bad;
    bench.runner->update(*bench.ctx, plan, 0, loss);
    EXPECT_FALSE(loss.applied) << bad;
    EXPECT_TRUE(std::isfinite(loss.gradient_norm));
    StepResult gradient = good;
    element = static_cast<float>(bad);
    bench.runner->update(*bench.ctx, plan, 0, gradient);
    EXPECT_FALSE(gradient.applied) << bad;
    EXPECT_EQ(bench.values(), before);
    element = kept;
  }
  StepResult result = good;
  bench.runner->update(*bench.ctx, plan, 0, result);
  EXPECT_TRUE(result.applied);
  EXPECT_NE(bench.values(), before);
}

TEST(StepRunner, SkippedStepsAreNoneToTheBiasCorrections) {
  // AdamW's first step has the size of its learning rate exactly when it is corrected as the first.
  const std::vector<std::string> adamw = {"optimizer.kind=adamw", "optimizer.weight_decay=0",
                                          "optimizer.adamw_epsilon=1e-30", "optimizer.clip=0"};
  Bench bench(config_with(1, adamw));
  const Tensor& biases = bench.workspace->parameters.balancing_biases();
  std::vector<float> biases_before(biases.as<float>(), biases.as<float>() + biases.numel());
  const std::vector<float> before = bench.values();
  const StepPlan plan = RunPlan(bench.config).at(5);
  bench.fetch(plan);
  ASSERT_TRUE(bench.runner->run(*bench.ctx, plan, 0).applied) << "five steps were skipped";
  const std::vector<float> after = bench.values();
  size_t moved = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == before[i]) continue;  // embeddings of tokens that the batch lacks
    ++moved;
    ASSERT_NEAR(std::abs(after[i] - before[i]), plan.adamw_learning_rate, 1e-6) << i;
  }
  EXPECT_GT(moved, after.size() / 2);
  for (int64_t i = 0; i < biases.numel(); ++i) {
    const bool skip_class = i % biases.cols() == biases.cols() - 1;
    const double step = std::abs(biases.as<float>()[i] - biases_before[static_cast<size_t>(i)]);
    if (!skip_class && step > 0) {
      EXPECT_NEAR(step, 1e-3, 1e-6) << i;
    }
  }
}

TEST(StepRunner, TheRotaryBaseIsThePlans) {
  Bench bench(config_with(1));
  StepPlan plan = RunPlan(bench.config).at(0);
  bench.fetch(plan);
  const double near = bench.runner->run(*bench.ctx, plan, 0).loss;
  Bench other(config_with(1));
  plan.theta = 2.0;
  other.fetch(plan);
  EXPECT_NE(other.runner->run(*other.ctx, plan, 0).loss, near);
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
    const MemoryPlan plan = plan_memory(config, Threads(2), Place{});
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
    for (const ArenaPlan& arena : plan_memory(config, Threads(1), Place{}).arenas) {
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
  const MemoryPlan plan = plan_memory(config, Threads(1), Place{});
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
