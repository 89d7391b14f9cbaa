// The transport over each MPI that is here, under its own launcher.
#include <gtest/gtest.h>

#include "comm/lab.h"

namespace athanor::comm::test {
namespace {

class TransportOver : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() >= static_cast<int>(available_mpis().size())) GTEST_SKIP() << kNoMpi;
  }
  const Mpi& mpi() const { return available_mpis()[static_cast<size_t>(GetParam())]; }
};
INSTANTIATE_TEST_SUITE_P(EachMpi, TransportOver, testing::Values(0, 1));

TEST_P(TransportOver, CarriesEveryByteBetweenAllPairs) {
  for (const int ranks : {2, 3}) {
    Command command(launch_words(mpi(), ranks, {"exchange"}));
    EXPECT_EQ(command.wait(), 0) << command.said();
    EXPECT_TRUE(command.out().starts_with(std::to_string(ranks) + " ranks over "))
        << command.said();
    EXPECT_NE(command.out().find(mpi().name == "mpich" ? "MPICH " : "Open MPI "),
              std::string::npos);
  }
}

TEST_P(TransportOver, TransferOfAnotherLengthIsFound) {
  Command command(launch_words(mpi(), 2, {"truncated"}));
  EXPECT_NE(command.wait(), 0) << command.said();
  EXPECT_NE(command.err().find("receiving 64 bytes from rank 0: 63 bytes came"), std::string::npos)
      << command.said();
}

TEST_P(TransportOver, LauncherOfAnotherMpiIsRefused) {
  const std::string other = mpi().name == "mpich" ? "openmpi" : "mpich";
  if (available_mpis().size() < 2) GTEST_SKIP() << "ONE MPI ALONE: nothing to confuse it with";
  Command command(launch_words(mpi(), 2, {"exchange"}), {"ATHANOR_MPI=" + other});
  EXPECT_EQ(command.wait(), 2) << command.said();
  EXPECT_NE(command.err().find(" of 2, "), std::string::npos) << command.said();
  EXPECT_NE(command.err().find("says rank 0 of 1"), std::string::npos) << command.said();
  EXPECT_EQ(command.out(), "");
}

}  // namespace
}  // namespace athanor::comm::test
