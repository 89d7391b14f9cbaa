// A world of ranks that are threads of this process: for tests of what is built on communicators.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace athanor::test {

/// Calls `rank` once for each of `size` ranks, side by side, each with a communicator of its own over a transport that copies
/// through memory, late now and then by `seed`. What a rank throws is thrown here, once all have ended.
void run_ranks(int size, const comm::CommunicatorOptions& options,
               const std::function<void(comm::Communicator&)>& rank, uint64_t seed = 1);

}  // namespace athanor::test
