// A folder that a test may fill, and errors as tests expect them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace athanor::test {

/// A fresh folder under the system's temporary one, removed with all it holds at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  /// Writes a file, with the folders above it.
  fs::path write(const std::string& name, std::string_view content) const;

 private:
  fs::path path_;
};

void write_bytes(const fs::path& path, std::string_view content);

/// The message of the Error that `action` throws, which must have `code`, be one line and hold every
/// one of `words`; a test failure otherwise.
std::string expect_error(ExitCode code, const std::vector<std::string>& words,
                         const std::function<void()>& action);

}  // namespace athanor::test
