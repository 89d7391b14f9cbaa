// Loads the transport of a launch: the module of its MPI, which lies in lib/athanor beside or above the program's folder.
#pragma once

#include <memory>

#include "comm/launcher.h"
#include "comm/transport.h"

namespace athanor::comm {

/// Starts MPI and gives the transport of a launch of many ranks; once a process. kUsage when the program was built without
/// this MPI, when the module is another build's, and when MPI sees another world than the launcher; kPeer when MPI fails.
std::unique_ptr<Transport> load_transport(const Launch& launch);

}  // namespace athanor::comm
