#include "base/new_directories.h"

#include <unistd.h>

namespace athanor {

NewDirectories::NewDirectories(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  for (fs::path path = whole; !path.empty() && !fs::exists(path, ignored);
       path = path.parent_path()) {
    if (path.has_filename()) made_.push_back(path);  // "out/" ends in an empty name
  }
  make_directories(folder);
}

NewDirectories::~NewDirectories() {
  for (const fs::path& path : made_) {
    if (::rmdir(path.c_str()) != 0) return;  // something lies in it, so its parents stay, too
  }
}

}  // namespace athanor
