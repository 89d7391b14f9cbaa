#include "comm/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace athanor::comm {
namespace {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const char* name) const { return environment_(name) != nullptr; }

  std::optional<int> number(const char* name) const {
    const char* text = environment_(name);
    if (text == nullptr) return std::nullopt;
    const std::string_view view(text);
    int value = 0;
    const auto [end, fault] = std::from_chars(view.data(), view.data() + view.size(), value);
    if (fault != std::errc() || end != view.data() + view.size() || value < 0) {
      throw usage_error(
          fmt::format("{}={}: the launcher's variable should be a number; start the "
                      "program by mpirun, mpiexec or srun, or unset it",
                      name, text));
    }
    return value;
  }

  int need(const char* name, const char* because) const {
    const std::optional<int> value = number(name);
    if (!value) {
      throw usage_error(
          fmt::format("{} is set and {} is not: this process cannot tell its rank; "
                      "start it by mpirun, mpiexec or srun, or unset {}",
                      because, name, because));
    }
    return *value;
  }

 private:
  const Environment& environment_;
};

/// ATHANOR_MPI, or what the launcher is made for.
std::string chosen_mpi(const Environment& environment, const char* usual) {
  const char* text = environment("ATHANOR_MPI");
  if (text == nullptr || *text == '\0') return usual;
  const std::string name = text;
  if (name != "openmpi" && name != "mpich") {
    throw usage_error("ATHANOR_MPI=" + name + ": it is openmpi or mpich");
  }
  return name;
}

Launch checked(Launch launch) {
  if (launch.size < 1 || launch.rank >= launch.size || launch.local_size < 1 ||
      launch.local_rank >= launch.local_size || launch.local_size > launch.size) {
    throw usage_error(fmt::format(
        "{} says rank {} of {}, on this host {} of {}: these contradict "
        "each other; start the program anew",
        name_of(launch.launcher), launch.rank, launch.size, launch.local_rank, launch.local_size));
  }
  if (!launch.many()) launch.mpi.clear();
  return launch;
}

/// "4(x2),3" names the tasks of each host; those of host number `node`.
int tasks_of_node(const char* text, int node) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    int tasks = 0;
    int repeats = 1;
    std::from_chars(entry.data(), entry.data() + entry.size(), tasks);
    if (const size_t open = entry.find("(x"); open != std::string_view::npos) {
      std::from_chars(entry.data() + open + 2, entry.data() + entry.size(), repeats);
    }
    if (node < repeats) return tasks;
    node -= repeats;
  }
  return 1;
}

/// PMI-1, the wire protocol between hydra and its processes: a line of key=value pairs, answered by one.
void tell_hydra(const Launch& launch, std::string_view line) {
  const char* variable = std::getenv("PMI_FD");
  if (launch.launcher != Launcher::kHydra || variable == nullptr) return;
  const int fd = std::atoi(variable);
  if (send(fd, line.data(), line.size(), MSG_NOSIGNAL) < 0) return;
  pollfd answered{fd, POLLIN, 0};
  poll(&answered, 1, 500);
}

}  // namespace

std::string name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kOpenMpi:
      return "mpirun (Open MPI)";
    case Launcher::kHydra:
      return "mpiexec (MPICH)";
    case Launcher::kSlurm:
      return "srun";
    case Launcher::kNone:
      break;
  }
  return "no launcher";
}

Launch find_launch(const Environment& environment) {
  const Variables variables(environment);
  Launch launch;
  if (const auto size = variables.number("OMPI_COMM_WORLD_SIZE")) {
    launch.launcher = Launcher::kOpenMpi;
    launch.mpi = chosen_mpi(environment, "openmpi");
    launch.size = *size;
    launch.rank = variables.need("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    launch.local_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(1);
    launch.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK").value_or(0);
    return checked(launch);
  }
  // Hydra inside a Slurm job inherits the job's variables; srun's own PMI does not set MPI_LOCALNRANKS.
  const bool hydra = variables.has("PMI_RANK") &&
                     (variables.has("MPI_LOCALNRANKS") || !variables.has("SLURM_STEP_NUM_TASKS"));
  if (hydra) {
    launch.launcher = Launcher::kHydra;
    launch.mpi = chosen_mpi(environment, "mpich");
    launch.rank = variables.need("PMI_RANK", "PMI_RANK");
    launch.size = variables.need("PMI_SIZE", "PMI_RANK");
    launch.local_size = variables.number("MPI_LOCALNRANKS").value_or(1);
    launch.local_rank = variables.number("MPI_LOCALRANKID").value_or(0);
    return checked(launch);
  }
  // A batch script has SLURM_NTASKS and SLURM_PROCID, too, and is no rank; a step has a number.
  if (variables.has("SLURM_STEP_ID") && variables.has("SLURM_STEP_NUM_TASKS")) {
    launch.launcher = Launcher::kSlurm;
    launch.size = variables.need("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID");
    launch.rank = variables.need("SLURM_PROCID", "SLURM_STEP_ID");
    launch.local_rank = variables.number("SLURM_LOCALID").value_or(0);
    const char* tasks = environment("SLURM_STEP_TASKS_PER_NODE");
    launch.local_size =
        tasks == nullptr ? 1 : tasks_of_node(tasks, variables.number("SLURM_NODEID").value_or(0));
    const bool pmi2 = variables.has("PMI_RANK");
    const bool pmix = variables.has("PMIX_RANK");
    launch.mpi = chosen_mpi(environment, pmix && !pmi2 ? "openmpi" : "mpich");
    launch = checked(launch);
    if (launch.many() && !pmi2 && !pmix) {
      throw usage_error(fmt::format(
          "srun started {} tasks that cannot find each other: give it --mpi=pmi2 (MPICH) or "
          "--mpi=pmix (Open MPI)",
          launch.size));
    }
  }
  return launch;
}

Launch find_launch() {
  return find_launch([](const char* name) -> const char* { return std::getenv(name); });
}

void take_leave(const Launch& launch) { tell_hydra(launch, "cmd=finalize\n"); }

void give_up(const Launch& launch, int code) {
  tell_hydra(launch, fmt::format("cmd=abort exitcode={}\n", code));
}

void require_same_world(const Launch& launch, const std::string& library, int rank, int size) {
  if (size == launch.size && rank == launch.rank) return;
  std::string mend;
  switch (launch.launcher) {
    case Launcher::kOpenMpi:
      mend = "start it by mpirun.openmpi and leave ATHANOR_MPI unset";
      break;
    case Launcher::kHydra:
      mend = "start it by mpiexec.hydra (mpirun.mpich) and leave ATHANOR_MPI unset";
      break;
    case Launcher::kSlurm:
      mend = "give srun --mpi=pmi2 for MPICH, or --mpi=pmix for Open MPI";
      break;
    case Launcher::kNone:
      break;
  }
  throw usage_error(fmt::format("{} says rank {} of {}, {} says rank {} of {}: {}",
                                name_of(launch.launcher), launch.rank, launch.size, library, rank,
                                size, mend));
}

}  // namespace athanor::comm
