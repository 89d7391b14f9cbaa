#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "comm/route.h"
#include "support/memory_world.h"

namespace athanor::comm {
namespace {

/// What rank `rank` gives to a sum: numbers of very different size, so that another order of adding shows.
std::vector<float> given(int rank, size_t count) {
  RandomStream random(7, static_cast<uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.normal() * std::exp(8 * random.normal()));
  }
  return values;
}

/// Σ over ranks as a binary tree, written the plain way.
std::vector<float> tree_sum(int size, size_t count) {
  std::vector<std::vector<float>> parts;
  for (int r = 0; r < size; ++r) parts.push_back(given(r, count));
  while (parts.size() > 1) {
    std::vector<std::vector<float>> pairs;
    for (size_t i = 0; i < parts.size(); i += 2) {
      if (i + 1 < parts.size()) {
        for (size_t k = 0; k < count; ++k) parts[i][k] += parts[i + 1][k];
      }
      pairs.push_back(parts[i]);
    }
    parts = pairs;
  }
  return parts.front();
}

Tensor view(std::vector<float>& values) {
  return Tensor::of(values.data(), {static_cast<int64_t>(values.size())});
}

struct World {
  int size;
  int node_ranks;
};

class EveryWorld : public testing::TestWithParam<World> {};

TEST_P(EveryWorld, SumsAreATreeOverRanksToTheBit) {
  const auto [size, node_ranks] = GetParam();
  const std::vector<float> wanted = tree_sum(size, 1000);
  test::run_ranks(size, {.node_ranks = node_ranks}, [&](Communicator& world) {
    for (int owner = 0; owner < size; ++owner) {
      std::vector<float> values = given(world.rank(), 1000);
      world.start_reduce(view(values), owner, 0);
      world.finish();
      if (world.rank() == owner) {
        EXPECT_EQ(values, wanted) << "owner " << owner;
      }
      std::vector<float> small = given(world.rank(), 1000);
      world.all_reduce_sum(view(small));
      EXPECT_EQ(small, wanted);
    }
  });
}

TEST_P(EveryWorld, ManyPartsGoOnAtATime) {
  const auto [size, node_ranks] = GetParam();
  constexpr size_t kPart = 100;
  constexpr int kParts = 23;
  const std::vector<float> wanted = tree_sum(size, kPart * kParts);
  test::run_ranks(size, {.node_ranks = node_ranks}, [&](Communicator& world) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> values = given(world.rank(), kPart * kParts);
      const Tensor all = view(values);
      const auto part = [&](int i) { return all.part(i * int64_t{kPart}, kPart); };
      for (int i = 0; i < kParts; ++i) world.start_reduce(part(i), (i + round) % size, i);
      world.finish();
      // Copies go on behind the rank that owns them as they end elsewhere.
      for (int i = 0; i < kParts; ++i) world.start_share(part(i), (i + round) % size, i);
      world.finish();
      EXPECT_EQ(values, wanted);
    }
  });
}

TEST_P(EveryWorld, TextsOfAnyLengthArriveInTheOrderOfRanks) {
  const auto [size, node_ranks] = GetParam();
  test::run_ranks(size, {.node_ranks = node_ranks}, [&](Communicator& world) {
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank * 37 % 5) * 100, static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = world.all_gather(text(world.rank()));
    ASSERT_EQ(all.size(), static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], text(r));
    EXPECT_EQ(world.broadcast(world.rank() == size - 1 ? "mine" : "not mine", size - 1), "mine");
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, EveryWorld,
                         testing::Values(World{1, 1}, World{2, 1}, World{3, 1}, World{4, 1},
                                         World{4, 2}, World{5, 1}, World{8, 1}, World{8, 2},
                                         World{8, 4}, World{8, 8}, World{6, 2}, World{6, 3}),
                         [](const auto& world) {
                           return std::to_string(world.param.size) + "RanksInNodesOf" +
                                  std::to_string(world.param.node_ranks);
                         });

TEST(Communicator, SendsMeetTheirReceives) {
  test::run_ranks(3, {}, [&](Communicator& world) {
    const int next = (world.rank() + 1) % 3;
    const int before = (world.rank() + 2) % 3;
    std::vector<float> out = given(world.rank(), 50);
    std::vector<float> first(25);
    std::vector<float> second(25);
    const Communicator::Ticket late = world.start_receive(view(second), before, 6);
    world.start_receive(view(first), before, 5);
    world.start_send(view(out).part(0, 25), next, 5);
    world.start_send(view(out).part(25, 25), next, 6);
    world.wait(late);
    const std::vector<float> wanted = given(before, 50);
    EXPECT_EQ(second, std::vector<float>(wanted.begin() + 25, wanted.end()));
    world.finish();
    EXPECT_EQ(first, std::vector<float>(wanted.begin(), wanted.begin() + 25));
  });
}

TEST(Communicator, APeerThatDoesNotAnswerIsNamed) {
  EXPECT_THROW(
      {
        try {
          test::run_ranks(2, {.patience_seconds = 0.3}, [&](Communicator& world) {
            std::vector<float> values(10);
            if (world.rank() == 0) world.start_reduce(view(values), 0, 0);
            world.finish();
          });
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::kPeer);
          EXPECT_NE(std::string(error.what()).find("rank 1 did not answer rank 0"),
                    std::string::npos)
              << error.what();
          throw;
        }
      },
      Error);
}

TEST(Communicator, WhoWaitsSaysForWhom) {
  const auto pulse = std::make_shared<Pulse>();  // of both ranks
  test::run_ranks(2, {.pulse = pulse}, [&](Communicator& world) {
    if (world.rank() == 1) {
      while (pulse->read().waits_for != 1) std::this_thread::yield();
    }
    world.barrier();
  });
  EXPECT_GT(pulse->read().polls, 0u);
}

TEST(Communicator, TrafficCrossesBetweenNodesOnce) {
  // 8 ranks in nodes of 4: a copy of 1,000 bytes goes to 7 ranks, but only once to the other node.
  int crossings = 0;
  for (int r = 0; r < 8; ++r) {
    const Route mine = route(r, 8, 4, 2);
    if (mine.other >= 0 && mine.other / 4 != r / 4) ++crossings;
  }
  EXPECT_EQ(crossings, 1);
}

TEST(Communicator, AddingAsTheyArriveGivesTheSameUpToRounding) {
  std::vector<float> wanted = tree_sum(5, 1000);
  test::run_ranks(5, {.order = Order::kArrival}, [&](Communicator& world) {
    std::vector<float> values = given(world.rank(), 1000);
    world.start_reduce(view(values), 3, 0);
    world.finish();
    if (world.rank() != 3) return;
    for (size_t i = 0; i < values.size(); ++i) {
      double size = 0;
      for (int r = 0; r < 5; ++r) size += std::abs(given(r, 1000)[i]);
      ASSERT_NEAR(values[i], wanted[i], size * 5e-7);
    }
  });
}

}  // namespace
}  // namespace athanor::comm
