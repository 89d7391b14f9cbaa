// Verbs that run on the ranks of a launch.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace athanor::cli {

/// How a parent's part of a launch ended (comm/parent.h): thrown to main(), which returns the code and says nothing.
struct Ended {
  int code;
};

/// Called by a verb that runs on ranks, first of all: a process that a launcher started with others becomes the parent of its
/// rank, and Ended is thrown when that is over. In its worker, and in a world of one, it returns.
void run_on_ranks();

/// Says an error where that is this process's to say; returns the exit code. A worker leaves it to its parent; of ranks whose
/// common command line is wrong the first speaks.
int fail(ExitCode code, std::string message, const std::vector<std::string>& arguments);

}  // namespace athanor::cli
