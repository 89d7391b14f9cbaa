#include "comm/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "base/threads.h"
#include "comm/message.h"

namespace athanor::comm {

std::string CoreShare::body() const {
  MessageWriter writer;
  writer.text(machine).number(quota).number(wanted).number(static_cast<int64_t>(cores.size()));
  for (const int core : cores) writer.number(core);
  return writer.body();
}

CoreShare CoreShare::of(const std::string& body) {
  MessageReader reader(body);
  CoreShare share;
  share.machine = reader.text();
  share.quota = static_cast<int>(reader.number());
  share.wanted = static_cast<int>(reader.number());
  for (int64_t left = reader.number(); left > 0; --left) {
    share.cores.push_back(static_cast<int>(reader.number()));
  }
  return share;
}

CoreShare own_core_share() {
  CoreShare share;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> share.machine;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) share.cores.push_back(core);
    }
  }
  const int allowed = allowed_threads();
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && std::atoi(wanted) >= 1) {
    share.wanted = allowed;
  } else if (allowed < static_cast<int>(share.cores.size())) {
    share.quota = allowed;
  }
  return share;
}

std::vector<int> divide_cores(const std::vector<CoreShare>& ranks) {
  std::map<std::pair<std::string, int>, int> users;
  std::map<std::string, int> host_ranks;
  for (const CoreShare& rank : ranks) {
    ++host_ranks[rank.machine];
    for (const int core : rank.cores) ++users[{rank.machine, core}];
  }
  std::vector<int> threads;
  for (const CoreShare& rank : ranks) {
    double share = 0;
    for (const int core : rank.cores) share += 1.0 / users[{rank.machine, core}];
    if (rank.quota > 0) {
      share = std::min(share, static_cast<double>(rank.quota) / host_ranks[rank.machine]);
    }
    // Three thirds are a whole core, however they are rounded.
    const int whole = std::max(1, static_cast<int>(share + 1e-6));
    threads.push_back(rank.wanted > 0 ? rank.wanted : whole);
  }
  return threads;
}

std::vector<std::string> oversubscribed(const std::vector<CoreShare>& ranks,
                                        const std::vector<std::string>& hosts,
                                        const std::vector<int>& threads) {
  struct Machine {
    std::set<int> cores;
    int quota = 0, ranks = 0, threads = 0;
    std::string host;
  };
  std::map<std::string, Machine> machines;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Machine& machine = machines[ranks[i].machine];
    machine.cores.insert(ranks[i].cores.begin(), ranks[i].cores.end());
    machine.quota = std::max(machine.quota, ranks[i].quota);
    machine.threads += threads[i];
    if (machine.ranks++ == 0) machine.host = hosts[i];
  }
  std::vector<std::string> lines;
  for (const auto& [name, machine] : machines) {
    int cores = static_cast<int>(machine.cores.size());
    if (machine.quota > 0) cores = std::min(cores, machine.quota);
    if (machine.threads <= cores) continue;
    lines.push_back(
        fmt::format("{} ranks run {} threads on the {} core{} of host {}: they take turns",
                    machine.ranks, machine.threads, cores, cores == 1 ? "" : "s", machine.host));
  }
  return lines;
}

}  // namespace athanor::comm
