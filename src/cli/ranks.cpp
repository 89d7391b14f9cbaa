#include "cli/ranks.h"

#include <algorithm>
#include <cstdio>

#include "comm/launcher.h"
#include "comm/parent.h"
#include "comm/worker.h"

namespace athanor::cli {
namespace {

bool became_parent = false;

bool is_for_ranks(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == "train";
}

/// True where another process says the same, or a parent will say what is to be said.
bool said_elsewhere(ExitCode code, const std::string& message,
                    const std::vector<std::string>& arguments) {
  if (became_parent || !is_for_ranks(arguments)) return false;
  try {
    comm::Worker& worker = comm::Worker::self();
    return worker.has_parent() ? worker.tell_failure(code, message) : worker.launch().rank > 0;
  } catch (const Error&) {
    return false;  // the launcher's variables make no sense, and `message` says so
  }
}

}  // namespace

void run_on_ranks() {
  comm::Worker& worker = comm::Worker::self();
  if (!worker.launch().many() || worker.has_parent()) return;
  became_parent = true;
  throw Ended{comm::run_parent(worker.launch())};
}

int fail(ExitCode code, std::string message, const std::vector<std::string>& arguments) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (!said_elsewhere(code, message, arguments)) {
    message = "athanor: " + message + "\n";
    std::fputs(message.c_str(), stderr);
  }
  return static_cast<int>(code);
}

}  // namespace athanor::cli
