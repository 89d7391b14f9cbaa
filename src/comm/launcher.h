// Who started this process, and as which rank of how many: read from the environment, before any MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace athanor::comm {

enum class Launcher : uint8_t { kNone, kOpenMpi, kHydra, kSlurm };

/// This process's place in a launch.
struct Launch {
  Launcher launcher = Launcher::kNone;
  std::string mpi;  ///< "openmpi" or "mpich": the module to load; empty in a world of one
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of this host
  int local_size = 1;  ///< ranks of this host

  /// True when other ranks were started with this one.
  bool many() const { return size > 1; }
};

/// Looks up an environment variable; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Recognises Open MPI's mpirun, MPICH's hydra and Slurm's srun. ATHANOR_MPI ("openmpi" or "mpich") names the MPI to load
/// where the launcher serves both. A process that nobody launched, or alone, is a world of one. kUsage for variables that
/// contradict each other, and for an srun that starts several tasks without telling them of each other.
Launch find_launch(const Environment& environment);
/// The same of this process's own environment.
Launch find_launch();

/// "mpirun (Open MPI)", "mpiexec (MPICH)", "srun", for a person.
std::string name_of(Launcher launcher);

/// Tells hydra that this process, whose MPI never ended in order, ends on purpose: otherwise hydra kills the others as soon as
/// this one is gone, and makes of their exit codes what it likes. Nothing for other launchers.
void take_leave(const Launch& launch);
/// Asks hydra to end all ranks: they may wait in MPI's start for this one, which will not come. Nothing for other launchers.
void give_up(const Launch& launch, int code);

/// Refuses (kUsage) an MPI that sees another world than the launcher's: each of its ranks would be a world of its own.
void require_same_world(const Launch& launch, const std::string& library, int rank, int size);

}  // namespace athanor::comm
