// A directory that appears complete or not at all.
#pragma once

#include "base/files.h"

namespace athanor::checkpoint {

/// A directory being filled beside its final place. Destroyed before commit(), it is removed with
/// all it holds.
class TemporaryDirectory {
 public:
  /// Makes `path`, after removing whatever a crash left there.
  explicit TemporaryDirectory(fs::path path);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const fs::path& path() const { return path_; }
  /// Writes a file into it, durably.
  void write_file(const std::string& name, std::string_view content) const;
  /// Makes its entries durable and gives it the name `target`, in exchange for a directory that has
  /// it, which is removed.
  void commit(const fs::path& target);
  /// The same where nothing may be replaced but an empty directory: kUsage when there is more by now.
  void commit_new(const fs::path& target);

 private:
  void make_durable() const;

  fs::path path_;
  bool committed_ = false;
};

/// Where a directory that the user names shall appear: absolute, without a slash at its end.
fs::path absolute_target(const fs::path& directory);
/// A hidden name beside `target` for this process: what a killed one leaves there is never taken for the target. Warns of
/// such leftovers, as large as a model each: only a person knows that no process, of whatever machine, is still at it.
fs::path temporary_beside(const fs::path& target);

}  // namespace athanor::checkpoint
