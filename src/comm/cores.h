// How the cores of a host are divided among the ranks that run on it.
#pragma once

#include <string>
#include <vector>

namespace athanor::comm {

/// What one rank may use.
struct CoreShare {
  std::string machine;     ///< the same on all ranks of one kernel
  std::vector<int> cores;  ///< its affinity mask
  int quota = 0;           ///< whole cores that its cgroup allows; 0: no quota
  int wanted = 0;          ///< OMP_NUM_THREADS; 0: not set

  std::string body() const;
  static CoreShare of(const std::string& body);
};

/// This process's own.
CoreShare own_core_share();

/// Threads of each rank. Cores that several ranks may use are divided equally; a quota is taken to be the host's.
std::vector<int> divide_cores(const std::vector<CoreShare>& ranks);

/// "3 ranks run 6 threads on 2 cores of host n1 …" for each machine that has fewer cores than threads.
std::vector<std::string> oversubscribed(const std::vector<CoreShare>& ranks,
                                        const std::vector<std::string>& hosts,
                                        const std::vector<int>& threads);

}  // namespace athanor::comm
