// The whole model's gradient against finite differences in double, and what a backward tells its
// sink.
#include <gtest/gtest.h>

#include <set>

#include "lab.h"

namespace athanor::model {
namespace {

/// Every parameter of `lab` on `batch`.
void expect_all_gradients(Lab& lab, const Batch& batch) {
  const double scale = 0.37;
  lab.train(batch, scale);
  for (const Parameter& p : lab.parameters->all()) {
    expect_gradient(p.spec.name, p.value, copy_of(p.gradient),
                    [&] { return scale * lab.loss(batch); });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ModelGradient, PackedDocumentsSlidingWindowAndMissingTargets) {
  Lab lab(small_config(), ops::Precision::kFp64, 1);
  const std::vector<int64_t> begins = {0, 1, 7, 9, 14};
  const Tensor ids = lab.ints(random_ids(14, 11, 2));
  auto targets = random_ids(14, 11, 3);
  targets[0] = targets[6] = targets[13] = -1;
  const Statistics statistics = lab.train({ids, lab.ints(targets), begins});
  EXPECT_EQ(statistics.targets, 11);
  expect_all_gradients(lab, {ids, lab.ints(targets), begins});
}

TEST(ModelGradient, SkippedTokens) {
  Lab lab(small_config(), ops::Precision::kFp64, 4);
  const std::vector<int64_t> begins = {0, 5, 12};
  const Batch batch{lab.ints(random_ids(12, 11, 5)), lab.ints(random_ids(12, 11, 6)), begins};
  // Raise each layer's skip bias until some tokens skip.
  for (int64_t l = 0; l < 2; ++l) {
    int64_t skipped = 0;
    for (double bias = -0.4; skipped == 0; bias += 0.01) {
      set(lab.parameters->balancing_biases(), l * 4 + 3, bias);
      skipped = lab.train(batch).expert_counts[l * 4 + 3];
    }
    ASSERT_LT(skipped, 12) << "all tokens skip layer " << l << ", which tests less";
  }
  expect_all_gradients(lab, batch);
}

TEST(ModelGradient, OneExpertOneToken) {
  ModelConfig config = small_config();
  config.experts = 1;
  config.layers = 3;
  config.layer_kinds = {LayerKind::kSliding, LayerKind::kFull, LayerKind::kFull};
  config.sliding_window = 1;
  Lab lab(config, ops::Precision::kFp64, 7);
  const std::vector<int64_t> begins = {0, 1};
  expect_all_gradients(lab, {lab.ints({3}), lab.ints({8}), begins});
}

TEST(ModelGradient, PrimeShapesWithoutRotaryPart) {
  ModelConfig config = small_config();
  config.hidden = 5;
  config.heads = {3, 1, 2};
  config.partial_rotary = 0;
  config.router = 3;
  config.expert_inner = 2;
  config.vocab = 7;
  Lab lab(config, ops::Precision::kFp64, 8);
  const std::vector<int64_t> begins = {0, 3, 11};
  expect_all_gradients(lab,
                       {lab.ints(random_ids(11, 7, 9)), lab.ints(random_ids(11, 7, 10)), begins});
}

TEST(ModelGradient, NoTargetAtAll) {
  Lab lab(small_config(), ops::Precision::kFp32, 11);
  const std::vector<int64_t> begins = {0, 4};
  for (const Tensor& targets : {lab.ints({-1, -1, -1, -1}), Tensor{}}) {
    const Statistics s = lab.train({lab.ints({1, 2, 3, 4}), targets, begins});
    EXPECT_EQ(s.targets, 0);
    EXPECT_EQ(s.loss_sum, 0);
    for (int64_t i = 0; i < lab.gradients.numel(); ++i) ASSERT_EQ(get(lab.gradients, i), 0);
    EXPECT_EQ(lab.sink.names.size(), lab.parameters->all().size());
  }
}

TEST(ModelGradient, EachParameterIsReadyOnceFromTheLastLayerToTheEmbedding) {
  Lab lab(small_config(), ops::Precision::kFp32, 12);
  const std::vector<int64_t> begins = {0, 4};
  lab.train({lab.ints({1, 2, 3, 4}), lab.ints({2, 3, 4, 5}), begins});
  const auto& names = lab.sink.names;
  EXPECT_EQ(names.size(), lab.parameters->all().size());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names.front(), "model.norm.weight");
  EXPECT_EQ(names.back(), "model.embed_tokens.weight");
  int64_t layer = 1;
  for (const std::string& name : names) {
    if (!name.starts_with("model.layers.")) continue;
    const int64_t l = std::stoll(name.substr(13));
    EXPECT_LE(l, layer) << name;
    layer = l;
  }
}

/// A sink that keeps what it was told, as a reduction that starts at once would.
struct CopyingSink : GradientSink {
  std::map<std::string, std::vector<double>> seen;
  void ready(const Parameter& p) override { seen[p.spec.name] = copy_of(p.gradient); }
};

TEST(ModelGradient, WhatIsReadyIsComplete) {
  Lab lab(small_config(), ops::Precision::kFp32, 13);
  const std::vector<int64_t> begins = {0, 6};
  CopyingSink sink;
  Statistics statistics;
  clear(lab.gradients);
  lab.model->forward_backward(lab.ctx, lab.activations,
                              {lab.ints({1, 2, 3, 4, 5, 6}), lab.ints({2, 3, 4, 5, 6, 7}), begins},
                              1.0, sink, statistics);
  for (const Parameter& p : lab.parameters->all()) {
    EXPECT_EQ(sink.seen[p.spec.name], copy_of(p.gradient)) << p.spec.name;
  }
}

TEST(ModelGradient, MicroBatchesAccumulate) {
  Lab lab(small_config(), ops::Precision::kFp64, 14);
  const std::vector<int64_t> one = {0, 6}, two = {0, 6, 12};
  const auto ids = random_ids(12, 11, 15), targets = random_ids(12, 11, 16);
  lab.train({lab.ints(ids), lab.ints(targets), two});
  const auto whole = copy_of(lab.gradients);
  clear(lab.gradients);
  Statistics statistics;
  for (int64_t part : {0, 1}) {
    lab.model->forward_backward(
        lab.ctx, lab.activations,
        {lab.ints({ids.begin() + 6 * part, ids.begin() + 6 * part + 6}),
         lab.ints({targets.begin() + 6 * part, targets.begin() + 6 * part + 6}), one},
        1.0, lab.sink, statistics);
  }
  EXPECT_EQ(statistics.targets, 12);
  for (int64_t i = 0; i < lab.gradients.numel(); ++i) {
    ASSERT_NEAR(get(lab.gradients, i), whole[i], 1e-11) << i;
  }
}

TEST(ModelGradient, RefusesIdsOutsideTheVocabulary) {
  Lab lab(small_config(), ops::Precision::kFp32, 17);
  const std::vector<int64_t> begins = {0, 2};
  EXPECT_THROW(lab.train({lab.ints({1, 11}), lab.ints({1, 1}), begins}), Error);
  EXPECT_THROW(lab.train({lab.ints({-1, 1}), lab.ints({1, 1}), begins}), Error);
  EXPECT_THROW(lab.train({lab.ints({1, 1}), lab.ints({1, 11}), begins}), Error);
  const std::vector<int64_t> longer = {0, 65};
  const auto ids = random_ids(65, 11, 1);
  EXPECT_THROW(lab.train({lab.ints(ids), lab.ints(ids), longer}), Error);
}

}  // namespace
}  // namespace athanor::model
