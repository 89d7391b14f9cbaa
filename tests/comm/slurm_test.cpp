// A real Slurm of one machine, started for the test: see tests/comm/slurm.
#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/lab.h"

namespace athanor::comm::test {
namespace {

TEST(Slurm, StartsStopsAndEndsRanks) {
  if (std::getenv("ATHANOR_TEST_FULL") == nullptr)
    GTEST_SKIP() << "LONG: scripts/test --full starts a Slurm";
  if (available_mpis().empty()) GTEST_SKIP() << kNoMpi;
  const std::string folder = std::string(ATHANOR_SOURCE_DIR) + "/tests/comm/slurm/";
  std::vector<std::string> words = {folder + "with-slurm.sh", folder + "scenarios.sh",
                                    ATHANOR_RANK_PROGRAM};
  for (const Mpi& mpi : available_mpis()) words.push_back(mpi.name);
  Command command(words);
  const int code = command.wait(std::chrono::seconds(300));
  if (code == 77) GTEST_SKIP() << command.err();
  EXPECT_EQ(code, 0) << command.said();
}

}  // namespace
}  // namespace athanor::comm::test
