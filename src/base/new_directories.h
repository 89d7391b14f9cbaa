// Folders that a refused command must not leave behind.
#pragma once

#include <vector>

#include "base/files.h"

namespace athanor {

/// Makes a folder and its missing parents. Destroyed, it removes those of them that are (still) empty: a command that put
/// nothing there leaves no trace.
class NewDirectories {
 public:
  /// Errors as make_directories.
  explicit NewDirectories(const fs::path& folder);
  ~NewDirectories();
  NewDirectories(const NewDirectories&) = delete;
  NewDirectories& operator=(const NewDirectories&) = delete;

 private:
  std::vector<fs::path> made_;  ///< the deepest first
};

}  // namespace athanor
