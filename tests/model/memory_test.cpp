// Memory and sameness: the plan is exact whatever the data, recomputation and threads keep the
// bits.
#include <gtest/gtest.h>

#include "lab.h"

namespace athanor::model {
namespace {

ModelConfig middle_config() {
  ModelConfig c;
  c.layers = 3;
  c.hidden = 48;
  c.heads = {4, 2, 16};
  c.experts = 5;
  c.expert_inner = 40;
  c.router = 24;
  c.vocab = 131;
  c.layer_kinds = {LayerKind::kFull, LayerKind::kSliding, LayerKind::kFull};
  c.sliding_window = 9;
  return c;
}

struct Peaks {
  size_t values, weights, activations, scratch;
};

enum class Work { kTrain, kForward, kExtend };

/// What `work` takes, found out without data.
Peaks plan(const ModelConfig& config, ops::Precision precision, const std::vector<int64_t>& begins,
           const std::vector<bool>& recompute, Work work, int threads) {
  Arena values("values"), weights("weights"), activations("activations"), scratch("scratch");
  ops::Context ctx{Threads(threads), scratch};
  Parameters parameters(config, precision, values);
  parameters.set_gradients(values.tensor(ops::real_dtype(precision), {parameters.numel()}));
  Model model(parameters, weights, {work == Work::kTrain, recompute, 64});
  model.refresh(ctx);
  const int64_t tokens = begins.back();
  Arena inputs("inputs");
  const Batch batch{inputs.tensor(DType::kI32, {tokens}), inputs.tensor(DType::kI32, {tokens}),
                    begins};
  SinkLog sink;
  Statistics statistics;
  std::vector<SequenceState> states;
  std::vector<SequenceState*> pointers;
  if (work == Work::kTrain) {
    model.forward_backward(ctx, activations, batch, 1.0, sink, statistics);
    EXPECT_EQ(sink.names.size(), parameters.all().size());
  } else if (work == Work::kForward) {
    model.forward(ctx, activations, batch, {}, statistics, true);
  } else {
    const auto segments = static_cast<int64_t>(begins.size()) - 1;
    for (int64_t s = 0; s < segments; ++s) {
      states.push_back(allocate_state(inputs, config, precision, 64, 64));
    }
    for (SequenceState& state : states) pointers.push_back(&state);
    model.extend(ctx, activations, batch.ids, begins, pointers,
                 inputs.tensor(ops::real_dtype(precision), {segments, config.vocab}));
    for (const SequenceState& state : states) {
      EXPECT_EQ(state.position, 0) << "a plan advances nothing";
      EXPECT_EQ(state.layers[0].count, 0);
    }
  }
  EXPECT_EQ(activations.used(), 0u);
  EXPECT_EQ(scratch.used(), 0u);
  return {values.peak(), weights.peak(), activations.peak(), scratch.peak()};
}

/// Runs `work` in arenas of exactly the planned size, with balancing biases that send all tokens to
/// one class.
void run_in(const Peaks& peaks, const ModelConfig& config, ops::Precision precision,
            const std::vector<int64_t>& begins, const std::vector<bool>& recompute, Work work,
            int threads, int64_t favoured) {
  Arena values("values"), weights("weights"), activations("activations"), scratch("scratch");
  Arena inputs("inputs");
  inputs.reserve(kRoom);
  values.reserve(peaks.values);
  weights.reserve(peaks.weights);
  activations.reserve(peaks.activations);
  scratch.reserve(peaks.scratch);
  ops::Context ctx{Threads(threads), scratch};
  Parameters parameters(config, precision, values);
  parameters.set_gradients(values.tensor(ops::real_dtype(precision), {parameters.numel()}));
  randomise(parameters, 5);
  for (int64_t l = 0; l < config.layers && favoured >= 0; ++l) {
    set(parameters.balancing_biases(), l * config.classes() + favoured, 10);
  }
  Model model(parameters, weights, {work == Work::kTrain, recompute, 64});
  const int64_t tokens = begins.back();
  const Batch batch{ints(inputs, random_ids(tokens, config.vocab, 6)),
                    ints(inputs, random_ids(tokens, config.vocab, 7)), begins};
  SinkLog sink;
  Statistics statistics;
  std::vector<SequenceState> states;
  std::vector<SequenceState*> pointers;
  if (work == Work::kTrain) {
    model.forward_backward(ctx, activations, batch, 1.0, sink, statistics);
  } else if (work == Work::kForward) {
    model.forward(ctx, activations, batch, {}, statistics, true);
  } else {
    const auto segments = static_cast<int64_t>(begins.size()) - 1;
    for (int64_t s = 0; s < segments; ++s) {
      states.push_back(allocate_state(inputs, config, precision, 64, 64));
    }
    for (SequenceState& state : states) pointers.push_back(&state);
    const Tensor logits = inputs.tensor(ops::real_dtype(precision), {segments, config.vocab});
    model.extend(ctx, activations, batch.ids, begins, pointers, logits);
  }
  if (work != Work::kExtend && favoured >= 0) {
    EXPECT_EQ(statistics.expert_counts[favoured], tokens);
  }
  EXPECT_EQ(values.peak(), peaks.values);
  EXPECT_EQ(weights.peak(), peaks.weights);
  EXPECT_EQ(activations.peak(), peaks.activations);
  EXPECT_EQ(scratch.peak(), peaks.scratch);
}

TEST(Memory, ThePlanIsExactWhateverTheRouting) {
  const ModelConfig config = middle_config();
  const std::vector<int64_t> begins = {0, 1, 30, 37, 60};
  for (const auto precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    for (const std::vector<bool>& recompute :
         std::vector<std::vector<bool>>{{}, {true, false, true}}) {
      for (const Work work : {Work::kTrain, Work::kForward, Work::kExtend}) {
        for (const int threads : {1, 2}) {
          const Peaks peaks = plan(config, precision, begins, recompute, work, threads);
          for (const int64_t favoured :
               {int64_t{-1}, int64_t{0}, config.experts - 1, config.experts}) {
            SCOPED_TRACE("class " + std::to_string(favoured) + ", work " +
                         std::to_string(static_cast<int>(work)));
            run_in(peaks, config, precision, begins, recompute, work, threads, favoured);
          }
        }
      }
    }
  }
}

TEST(Memory, AnObservedPassIsPlannedWithItsObserver) {
  const ModelConfig config = middle_config();
  const std::vector<int64_t> begins = {0, 1, 30};
  const auto pass = [&](Arena& activations, Arena& scratch, Lab& lab, const Observer& observer) {
    ops::Context ctx{Threads(1), scratch};
    Statistics statistics;
    const Batch batch{lab.ints(random_ids(30, config.vocab, 6)), {}, begins};
    lab.model->forward(ctx, activations, batch, {}, statistics, true, observer);
  };
  Lab lab(config, ops::Precision::kBf16, 5);
  Arena plan("plan"), plan_scratch("plan scratch"), activations("activations"), scratch("scratch");
  pass(plan, plan_scratch, lab, [](std::string_view name, const Tensor&) {
    ADD_FAILURE() << "a plan has nothing to show, yet showed " << name;
  });
  activations.reserve(plan.peak());
  scratch.reserve(plan_scratch.peak());
  std::vector<std::string> names;
  pass(activations, scratch, lab,
       [&](std::string_view name, const Tensor&) { names.emplace_back(name); });
  EXPECT_EQ(activations.peak(), plan.peak());
  EXPECT_EQ(names.size(), 2 + 12 * 3 + 1u);
}

TEST(Memory, RecomputationKeepsTheBitsAndSavesWhatThePlanSays) {
  const ModelConfig config = middle_config();
  const std::vector<int64_t> begins = {0, 1, 30, 37, 60};
  for (const auto precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    std::vector<double> kept;
    Statistics kept_statistics;
    size_t kept_peak = 0;
    for (const std::vector<bool>& recompute :
         std::vector<std::vector<bool>>{{}, {true, true, true}, {false, true, false}}) {
      Lab lab(config, precision, 8, recompute);
      const Batch batch{lab.ints(random_ids(60, 131, 9)), lab.ints(random_ids(60, 131, 10)),
                        begins};
      const Statistics statistics = lab.train(batch);
      if (recompute.empty()) {
        kept = copy_of(lab.gradients);
        kept_statistics = statistics;
        kept_peak = lab.activations.peak();
        continue;
      }
      EXPECT_EQ(kept, copy_of(lab.gradients));
      EXPECT_EQ(kept_statistics.loss_sum, statistics.loss_sum);
      EXPECT_EQ(kept_statistics.expert_counts, statistics.expert_counts);
      EXPECT_LT(lab.activations.peak(), kept_peak);
      EXPECT_EQ(plan(config, precision, begins, recompute, Work::kTrain, 1).activations,
                lab.activations.peak());
    }
  }
}

TEST(Memory, ThreadsDoNotChangeTheBits) {
  const ModelConfig config = middle_config();
  const std::vector<int64_t> begins = {0, 1, 30, 37, 60};
  for (const auto precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    std::vector<double> one;
    double loss = 0;
    for (const int threads : {1, 2, 3}) {
      Lab lab(config, precision, 11, {}, threads);
      const Batch batch{lab.ints(random_ids(60, 131, 12)), lab.ints(random_ids(60, 131, 13)),
                        begins};
      const Statistics statistics = lab.train(batch);
      if (threads == 1) {
        one = copy_of(lab.gradients);
        loss = statistics.loss_sum;
      }
      EXPECT_EQ(one, copy_of(lab.gradients));
      EXPECT_EQ(loss, statistics.loss_sum);
    }
  }
}

/// What is left in the arenas by an earlier pass must not matter.
TEST(Memory, NothingIsReadBeforeItIsWritten) {
  const std::vector<int64_t> begins = {0, 1, 30, 37, 60};
  for (const auto precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    Lab lab(middle_config(), precision, 14, {true, false, false});
    const Batch batch{lab.ints(random_ids(60, 131, 15)), lab.ints(random_ids(60, 131, 16)), begins};
    lab.train(batch);
    const auto clean = copy_of(lab.gradients);
    for (Arena* arena : {&lab.activations, &lab.scratch}) {
      const size_t bytes = arena->peak();
      ArenaScope scope(*arena);
      std::memset(arena->allocate(bytes), 0xff, bytes);  // NaN in every float format
    }
    lab.train(batch);
    EXPECT_EQ(clean, copy_of(lab.gradients));
  }
}

TEST(Memory, ThetaOfTheFullLayersCanChange) {
  ModelConfig config = middle_config();
  const std::vector<int64_t> begins = {0, 60};
  Lab changed(config, ops::Precision::kFp32, 17);
  const size_t weights = changed.weights.used();
  changed.model->set_theta(77);
  EXPECT_EQ(changed.weights.used(), weights);
  config.theta = 77;
  Lab made(config, ops::Precision::kFp32, 17);
  const auto ids = random_ids(60, 131, 18);
  const auto loss = [&](Lab& lab) { return lab.loss({lab.ints(ids), lab.ints(ids), begins}); };
  const double expected = loss(made);
  EXPECT_EQ(loss(changed), expected);
  changed.model->set_theta(78);
  EXPECT_NE(loss(changed), expected);
}

TEST(Memory, NewValuesArePackedAgain) {
  Lab lab(middle_config(), ops::Precision::kFp32, 19);
  const std::vector<int64_t> begins = {0, 5};
  const Batch batch{lab.ints({1, 2, 3, 4, 5}), lab.ints({2, 3, 4, 5, 6}), begins};
  const double first = lab.loss(batch);
  for (const Parameter& p : lab.parameters->all()) {
    if (p.spec.kind == ParameterKind::kVector) continue;
    const std::vector<double> before = copy_of(p.value);
    for (int64_t i = 0; i < p.value.numel(); ++i) set(p.value, i, 1.1 * before[i]);
    EXPECT_NE(lab.loss(batch), first) << p.spec.name;
    for (int64_t i = 0; i < p.value.numel(); ++i) set(p.value, i, before[i]);
    EXPECT_EQ(lab.loss(batch), first) << p.spec.name;
  }
}

}  // namespace
}  // namespace athanor::model
