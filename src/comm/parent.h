// A launched rank is two processes: a parent without MPI, and the worker that it starts from the same program. The parent learns
// how its worker ends and tells the other parents, so that all ranks end together, whatever happens to one (docs/parallel.md).
#pragma once

#include "comm/launcher.h"

namespace athanor::comm {

/// Starts this program again, with the same arguments, as the worker of `launch`; stands by it to its end and returns the exit
/// code. The worker has this process's standard streams, environment and open files. Errors (kResources, kPeer) only before it
/// runs.
int run_parent(const Launch& launch);

/// What a parent says in its worker's environment, under this name: the numbers of its ends of socket and page, and its pid.
constexpr const char* kWorkerVariable = "ATHANOR_WORKER";

}  // namespace athanor::comm
