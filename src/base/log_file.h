// Where a rank of many says what it has to say: its own file, and the terminal for one of them alone.
#pragma once

#include "base/files.h"

namespace athanor::log {

/// From now on warnings, notes and progress (a line a minute) also go to `path`, behind what is there, each line whole with its
/// time in UTC; folders are made. They go on to the terminal only where `terminal` says so. Once a process. kUsage and
/// kResources when the file cannot be opened.
void to_file(const fs::path& path, bool terminal);

}  // namespace athanor::log
