// A file system that can be filled without harm.
#pragma once

#include "base/files.h"

namespace athanor::test {

/// A tmpfs of so many bytes, unmounted at the end; none where this process may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(int64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

constexpr const char* kFullDiskNotTried = "FULL DISK NOT TRIED: mounting a tmpfs needs root";

}  // namespace athanor::test
