#include "support/small_disk.h"

#include <sys/mount.h>

#include <cstdlib>

namespace athanor::test {

SmallDisk::SmallDisk(int64_t bytes) {
  std::string name = (fs::temp_directory_path() / "athanor-disk-XXXXXX").string();
  require(::mkdtemp(name.data()) != nullptr, "no temporary folder for a test");
  path_ = name;
  const std::string size = "size=" + std::to_string(bytes);
  mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace athanor::test
