// What one rank does for all, and what all must have done before any goes on.
#pragma once

#include <string>

#include "base/error.h"
#include "base/threads.h"
#include "comm/communicator.h"

namespace athanor::comm {

/// Runs `action` on every rank. When it throws an Error on some, all throw: with the code of the first of them, and with its
/// message on rank 0, which is the one that speaks; the others' Error has no words. Other exceptions pass.
void agree(Communicator& communicator, FunctionRef<void()> action);

/// Runs `action` on rank 0 and gives its text to all ranks; an Error of it is everybody's, as in agree().
std::string lead(Communicator& communicator, FunctionRef<std::string()> action);

/// Refuses (kUsage) ranks whose `text` is not rank 0's; the message names the first of them, `what`, and the first line that
/// differs.
void require_alike(Communicator& communicator, const std::string& what, const std::string& text);

}  // namespace athanor::comm
