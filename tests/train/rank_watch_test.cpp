#include "train/rank_watch.h"

#include <gtest/gtest.h>

#include <bit>

#include "support/memory_world.h"
#include "train/bench.h"

namespace athanor::train {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder
using Verdict = RankWatch::Verdict;

Config config() { return config_with(8, {"batch.micro_batch=1"}); }

void flip_bit(const Tensor& values, int64_t element) {
  auto& bits = reinterpret_cast<uint32_t*>(values.data())[element];
  bits ^= 1U;
}

TEST(RankWatch, ReplayProvesWhoWasWrong) {
  test::run_ranks(4, {}, [](comm::Communicator& world) {
    RankWatch watch(world, 2);
    Bench bench(config(), world);
    bench.step(0);
    EXPECT_EQ(watch.compare(1, bench.workspace->parameters), Verdict::kNotDue);
    bench.step(1);
    EXPECT_EQ(watch.compare(2, bench.workspace->parameters), Verdict::kSame);
    EXPECT_EQ(watch.good_step(), 2);
    // The last bit of one weight, which rank 0 owns.
    const Tensor weights = bench.workspace->parameters.space().rest;
    if (world.rank() == 2) flip_bit(weights, 0);
    EXPECT_EQ(watch.compare(4, bench.workspace->parameters), Verdict::kReplay);
    EXPECT_EQ(watch.suspects(), std::vector<int>{2});
    EXPECT_EQ(watch.good_step(), 2);
    if (world.rank() == 2) flip_bit(weights, 0);
    EXPECT_EQ(watch.compare(4, bench.workspace->parameters), Verdict::kSame);
    EXPECT_EQ(watch.suspects(), std::vector<int>{2});
    EXPECT_EQ(watch.good_step(), 4);
  });
}

TEST(RankWatch, WhatDiffersAgainAfterAReplayStays) {
  test::run_ranks(2, {}, [](comm::Communicator& world) {
    RankWatch watch(world, 1);
    Bench bench(config(), world);
    if (world.rank() == 1) flip_bit(bench.workspace->parameters.balancing_biases(), 0);
    EXPECT_EQ(watch.compare(1, bench.workspace->parameters), Verdict::kReplay);
    EXPECT_EQ(watch.suspects(), (std::vector<int>{0, 1})) << "of two, neither is more";
    EXPECT_EQ(watch.compare(1, bench.workspace->parameters), Verdict::kStays);
  });
}

/// A flip in one rank's gradient reaches all ranks through the sum, as does one in its optimizer state: parameters stay equal.
TEST(RankWatch, DoesNotSeeWhatAllRanksReceiveAlike) {
  test::run_ranks(2, {}, [](comm::Communicator& world) {
    RankWatch watch(world, 1);
    Bench bench(config(), world);
    bench.step(0);
    if (world.rank() == 1) flip_bit(bench.workspace->optimizer.state().front().value, 0);
    bench.step(1);
    EXPECT_EQ(watch.compare(2, bench.workspace->parameters), Verdict::kSame);
  });
}

TEST(RankWatch, AForeignWeightIsOverwrittenByTheNextStep) {
  // A flip in a copy lives until its owner sends the value again; what it did to that rank's gradients all receive alike.
  test::run_ranks(2, {}, [](comm::Communicator& world) {
    RankWatch watch(world, 1);
    Bench bench(config(), world);
    const Tensor& flat = bench.workspace->parameters.space().rest;
    const bool first_is_mine = bench.workspace->partition.pieces()[0].owner == world.rank();
    if (!first_is_mine) flip_bit(flat, 0);
    EXPECT_EQ(watch.compare(0, bench.workspace->parameters), Verdict::kReplay);
    bench.step(0);
    EXPECT_EQ(watch.compare(1, bench.workspace->parameters), Verdict::kSame);
  });
}

TEST(RankWatch, NamesRanksAsAPersonDoes) {
  EXPECT_EQ(text_of({3}), "rank 3");
  EXPECT_EQ(text_of({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(text_of({0, 1, 5}), "ranks 0, 1 and 5");
}

}  // namespace
}  // namespace athanor::train
