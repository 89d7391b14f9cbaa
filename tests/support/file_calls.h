// What a piece of code asks of the file system, in order: a crash between two calls leaves what the first ones made
// durable, so that tests can tell which crashes would lose or break something.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"

namespace athanor::test {

struct FileCall {
  enum class Kind { kSync, kRename };
  Kind kind;
  fs::path path;  ///< synced, or renamed from
  fs::path to;    ///< renamed to
  bool replaces;  ///< `to` existed when the rename began
};

/// Records fsync and rename calls of this process while it lives; one at a time.
class FileCalls {
 public:
  FileCalls();
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  const std::vector<FileCall>& all() const { return calls_; }
  /// Index of the first call at or after `from` that syncs `path` (a file under its name of that moment, or a folder);
  /// the number of calls when there is none.
  size_t sync_of(const fs::path& path, size_t from = 0) const;
  /// The same for the rename to `to`.
  size_t rename_to(const fs::path& to, size_t from = 0) const;
  /// True when `path` was synced in calls [from, until).
  bool synced(const fs::path& path, size_t from, size_t until) const;
  /// All calls as text, for messages.
  std::string text() const;

  void record(FileCall call);

 private:
  std::vector<FileCall> calls_;
};

}  // namespace athanor::test
