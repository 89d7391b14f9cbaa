#include "infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"

namespace athanor::infer {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<int32_t> draws(const SamplingOptions& options, const std::vector<float>& logits,
                           int count) {
  Sampler sampler(options);
  std::vector<int32_t> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(sampler.sample(logits));
  return drawn;
}

std::set<int32_t> drawn_tokens(const SamplingOptions& options, const std::vector<float>& logits) {
  const std::vector<int32_t> all = draws(options, logits, 400);
  return {all.begin(), all.end()};
}

/// Logits whose softmax is `probabilities`.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIndexOfEquals) {
  const SamplingOptions greedy{.temperature = 0};
  EXPECT_EQ(draws(greedy, {0.5f, 2.0f, 1.0f}, 1)[0], 1);
  EXPECT_EQ(draws(greedy, {0.5f, 2.0f, 2.0f, 2.0f}, 1)[0], 1);
  EXPECT_EQ(draws(greedy, {kNever, kNever, -5.0f}, 1)[0], 2);
  EXPECT_EQ(draws(greedy, {-7.0f}, 1)[0], 0);
}

TEST(Sampler, DrawsAsOftenAsTheSoftmaxSays) {
  const std::vector<double> probabilities = {0.05, 0.5, 0.15, 0.3};
  for (const double temperature : {1.0, 0.5, 2.0}) {
    double sum = 0;
    for (const double p : probabilities) sum += std::pow(p, 1 / temperature);
    constexpr int kDraws = 40000;
    std::vector<int> counts(4);
    for (const int32_t token :
         draws({.temperature = temperature, .seed = 3}, logits_of(probabilities), kDraws)) {
      ++counts[token];
    }
    for (size_t i = 0; i < 4; ++i) {
      const double p = std::pow(probabilities[i], 1 / temperature) / sum;
      const double deviation = std::sqrt(kDraws * p * (1 - p));
      EXPECT_NEAR(counts[i], kDraws * p, 4.5 * deviation) << "token " << i << " at " << temperature;
    }
  }
}

TEST(Sampler, EqualSeedsDrawEqualTokensAndOtherSeedsOthers) {
  const std::vector<float> logits(50, 1.0f);
  EXPECT_EQ(draws({.seed = 7}, logits, 30), draws({.seed = 7}, logits, 30));
  EXPECT_NE(draws({.seed = 7}, logits, 30), draws({.seed = 8}, logits, 30));
}

TEST(Sampler, ADrawDependsOnItsNumberAloneNotOnEarlierLogits) {
  const std::vector<float> flat(50, 1.0f), steep = {9.0f, 1.0f};
  Sampler a({.seed = 5}), b({.seed = 5});
  a.sample(flat);
  b.sample(steep);
  EXPECT_EQ(a.sample(flat), b.sample(flat));
}

TEST(Sampler, TopKKeepsTheLikeliestAndCutsTiesByIndex) {
  const std::vector<float> logits = {1.0f, 2.0f, 2.0f, 2.0f, 0.0f};
  EXPECT_EQ(drawn_tokens({.top_k = 1}, logits), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn_tokens({.top_k = 2}, logits), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(drawn_tokens({.top_k = 4}, logits), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(Sampler, ATopKThatCutsNothingChangesNoDraw) {
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.2, 0.3});
  const auto all = draws({.seed = 2}, logits, 100);
  EXPECT_EQ(draws({.top_k = 4, .seed = 2}, logits, 100), all);
  EXPECT_EQ(draws({.top_k = std::numeric_limits<int64_t>::max(), .seed = 2}, logits, 100), all);
  EXPECT_EQ(draws({.top_p = 1, .seed = 2}, logits, 100), all);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  const std::vector<float> logits = logits_of({0.125, 0.5, 0.125, 0.25});
  EXPECT_EQ(drawn_tokens({.top_p = 1e-9}, logits), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn_tokens({.top_p = 0.49}, logits), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn_tokens({.top_p = 0.51}, logits), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(drawn_tokens({.top_p = 0.76}, logits), (std::set<int32_t>{0, 1, 3}));
  EXPECT_EQ(drawn_tokens({.top_p = 0.999}, logits), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(Sampler, TopPCountsWhatTopKLeft) {
  // After top-k 2 the probabilities are 2/3 and 1/3: the first alone reaches 0.6.
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.25});
  EXPECT_EQ(drawn_tokens({.top_k = 2, .top_p = 0.6}, logits), (std::set<int32_t>{0}));
  EXPECT_EQ(drawn_tokens({.top_p = 0.6}, logits), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, NeverDrawsWhatHasNoProbability) {
  EXPECT_EQ(drawn_tokens({.temperature = 100}, {kNever, 0.0f, kNever, 0.1f}),
            (std::set<int32_t>{1, 3}));
  EXPECT_EQ(drawn_tokens({.top_k = 3}, {kNever, 0.0f, kNever}), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn_tokens({.temperature = 1e-300}, {1.0f, 1.5f, -1e30f}), (std::set<int32_t>{1}));
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  const auto code = [](std::vector<float> logits) {
    try {
      Sampler({.temperature = 0}).sample(logits);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code({0.0f, NAN, 1.0f}), ExitCode::kNumbers);
  EXPECT_EQ(code({0.0f, INFINITY}), ExitCode::kNumbers);
  EXPECT_EQ(code({kNever, kNever}), ExitCode::kNumbers);
  EXPECT_EQ(code({0.0f, kNever}), ExitCode::kDone);
}

TEST(Sampler, RefusesOptionsWithoutMeaning) {
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = -0.1}, SamplingOptions{.temperature = NAN},
        SamplingOptions{.temperature = INFINITY}, SamplingOptions{.top_k = -1},
        SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = NAN}, SamplingOptions{.top_p = 1.001},
        SamplingOptions{.top_p = -0.5}}) {
    try {
      const Sampler sampler(options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    }
  }
}

}  // namespace
}  // namespace athanor::infer
