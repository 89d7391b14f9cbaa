#include "comm/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "support/scratch.h"

namespace athanor::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
  return find_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void expect_launch(const Variables& variables, Launcher launcher, const std::string& mpi, int rank,
                   int size, int local_rank, int local_size) {
  const Launch launch = launch_of(variables);
  EXPECT_EQ(launch.launcher, launcher);
  EXPECT_EQ(launch.mpi, mpi);
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.local_rank, local_rank);
  EXPECT_EQ(launch.local_size, local_size);
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Variables kHydra = {
    {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}};
const Variables kStep = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_PROCID", "6"},  {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "2"},  {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"},
                         {"SLURM_NTASKS", "7"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(Launcher, ProcessOfNobodyIsAWorldOfOne) { expect_launch({}, Launcher::kNone, "", 0, 1, 0, 1); }

TEST(Launcher, OpenMpi) {
  expect_launch(kOpenMpi, Launcher::kOpenMpi, "openmpi", 5, 8, 1, 4);
  // mpirun starts its daemons by srun inside a Slurm job: their variables are inherited and say nothing of the ranks.
  expect_launch(with(kStep, kOpenMpi), Launcher::kOpenMpi, "openmpi", 5, 8, 1, 4);
}

TEST(Launcher, Hydra) {
  expect_launch(kHydra, Launcher::kHydra, "mpich", 3, 4, 1, 2);
  expect_launch(with(kStep, kHydra), Launcher::kHydra, "mpich", 3, 4, 1, 2);
}

TEST(Launcher, SlurmByItsPmi) {
  expect_launch(with(kStep, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}), Launcher::kSlurm, "mpich", 6,
                7, 0, 1);
  expect_launch(with(kStep, {{"PMIX_RANK", "6"}}), Launcher::kSlurm, "openmpi", 6, 7, 0, 1);
  expect_launch(with(kStep, {{"PMIX_RANK", "6"}, {"ATHANOR_MPI", "mpich"}}), Launcher::kSlurm,
                "mpich", 6, 7, 0, 1);
  expect_launch(with(kStep, {{"PMIX_RANK", "4"},
                             {"SLURM_PROCID", "4"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_LOCALID", "1"}}),
                Launcher::kSlurm, "openmpi", 4, 7, 1, 3);
}

TEST(Launcher, TasksThatCannotFindEachOtherAreRefused) {
  athanor::test::expect_error(ExitCode::kUsage,
                              {"srun started 7 tasks", "--mpi=pmi2", "--mpi=pmix"},
                              [] { launch_of(kStep); });
}

TEST(Launcher, BatchScriptIsNoRank) {
  expect_launch({{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "7"}, {"SLURM_PROCID", "0"}},
                Launcher::kNone, "", 0, 1, 0, 1);
}

TEST(Launcher, OneRankAloneLoadsNoMpi) {
  expect_launch({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}, Launcher::kOpenMpi,
                "", 0, 1, 0, 1);
  expect_launch(with(kStep, {{"SLURM_STEP_NUM_TASKS", "1"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1"}}),
                Launcher::kSlurm, "", 0, 1, 0, 1);
}

TEST(Launcher, ContradictionsAreRefused) {
  const auto refused = [](const Variables& variables, const std::vector<std::string>& words) {
    athanor::test::expect_error(ExitCode::kUsage, words, [&] { launch_of(variables); });
  };
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "8"}}), {"rank 8 of 8", "contradict"});
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "many"}}), {"OMPI_COMM_WORLD_SIZE=many"});
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8x"}}), {"OMPI_COMM_WORLD_SIZE=8x"});
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "-8"}}), {"OMPI_COMM_WORLD_SIZE=-8"});
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", ""}}), {"OMPI_COMM_WORLD_SIZE="});
  refused({{"OMPI_COMM_WORLD_SIZE", "2"}}, {"OMPI_COMM_WORLD_RANK is not"});
  refused({{"PMI_RANK", "2"}}, {"PMI_SIZE is not"});
  refused(with(kOpenMpi, {{"ATHANOR_MPI", "lam"}}), {"ATHANOR_MPI=lam", "openmpi or mpich"});
  refused(with(kStep, {{"PMI_RANK", "6"}, {"SLURM_PROCID", "7"}}), {"srun says rank 7 of 7"});
}

TEST(Launcher, AnotherWorldThanTheLaunchersIsRefusedWithTheWayOut) {
  Launch launch{.launcher = Launcher::kSlurm, .mpi = "mpich", .rank = 1, .size = 4};
  athanor::test::expect_error(
      ExitCode::kUsage, {"srun says rank 1 of 4", "MPICH 4.0.2 says rank 0 of 1", "--mpi=pmi2"},
      [&] { require_same_world(launch, "MPICH 4.0.2", 0, 1); });
  athanor::test::expect_error(ExitCode::kUsage, {"says rank 1 of 4", "says rank 2 of 4"},
                              [&] { require_same_world(launch, "MPICH 4.0.2", 2, 4); });
  require_same_world(launch, "MPICH 4.0.2", 1, 4);
}

}  // namespace
}  // namespace athanor::comm
