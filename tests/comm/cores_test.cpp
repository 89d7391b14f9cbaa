#include "comm/cores.h"

#include <gtest/gtest.h>

namespace athanor::comm {
namespace {

CoreShare share(const std::string& machine, std::vector<int> cores, int quota = 0, int wanted = 0) {
  return {machine, std::move(cores), quota, wanted};
}

TEST(Cores, BoundRanksUseTheirsAndOthersDivide) {
  EXPECT_EQ(divide_cores({share("a", {0, 1}), share("a", {2, 3}), share("b", {0, 1})}),
            (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(divide_cores({share("a", {0, 1, 2, 3}), share("a", {0, 1, 2, 3})}),
            (std::vector<int>{2, 2}));
  EXPECT_EQ(divide_cores({share("a", {0, 1, 2}), share("a", {0, 1, 2}), share("a", {0, 1, 2})}),
            (std::vector<int>{1, 1, 1}));
  // Two to a socket.
  EXPECT_EQ(
      divide_cores({share("a", {0, 1, 2, 3}), share("a", {0, 1, 2, 3}), share("a", {4, 5, 6, 7})}),
      (std::vector<int>{2, 2, 4}));
  EXPECT_EQ(divide_cores({share("a", {0}), share("a", {0}), share("a", {0})}),
            (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(divide_cores({share("a", {0, 1, 2, 3}, 0, 7), share("a", {0, 1, 2, 3})}),
            (std::vector<int>{7, 2}));
  EXPECT_EQ(divide_cores(
                {share("a", {0, 1, 2, 3, 4, 5, 6, 7}, 4), share("a", {0, 1, 2, 3, 4, 5, 6, 7}, 4)}),
            (std::vector<int>{2, 2}));
}

TEST(Cores, MoreThreadsThanCoresIsSaidForThatHostAlone) {
  const std::vector<CoreShare> ranks = {share("a", {0, 1}), share("a", {0, 1}), share("a", {0, 1}),
                                        share("b", {0, 1})};
  const std::vector<std::string> hosts = {"n0", "n0", "n0", "n1"};
  EXPECT_EQ(oversubscribed(ranks, hosts, divide_cores(ranks)),
            (std::vector<std::string>{
                "3 ranks run 3 threads on the 2 cores of host n0: they take turns"}));
  EXPECT_TRUE(oversubscribed({ranks[0], ranks[1]}, hosts, {1, 1}).empty());
  EXPECT_EQ(oversubscribed({share("a", {0, 1, 2, 3}, 2)}, hosts, {4}).size(), 1u);
}

TEST(Cores, SharesTravel) {
  const CoreShare back = CoreShare::of(share("boot", {1, 5, 1023}, 3, 2).body());
  EXPECT_EQ(back.machine, "boot");
  EXPECT_EQ(back.cores, (std::vector<int>{1, 5, 1023}));
  EXPECT_EQ(back.quota, 3);
  EXPECT_EQ(back.wanted, 2);
  EXPECT_FALSE(own_core_share().cores.empty());
  EXPECT_FALSE(own_core_share().machine.empty());
}

}  // namespace
}  // namespace athanor::comm
