#include "checkpoint/temporary_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>  // renameat2

namespace athanor::checkpoint {

TemporaryDirectory::TemporaryDirectory(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) throw system_error(error.value(), "remove", path_.string(), ExitCode::kResources);
  make_directories(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // what cannot be removed now is removed by the next save
  if (!committed_) fs::remove_all(path_, ignored);
}

void TemporaryDirectory::write_file(const std::string& name, std::string_view content) const {
  FileWriter writer(path_ / name, ExitCode::kResources);
  writer.write(content.data(), content.size());
  writer.close();
}

void TemporaryDirectory::commit(const fs::path& target) {
  if (!fs::is_directory(path_)) {
    throw resource_error(path_.string() + ": the directory vanished while it was written");
  }
  sync_directory(path_);
  if (!fs::exists(fs::symlink_status(target))) {
    rename_file(path_, target, ExitCode::kResources);
    committed_ = true;
  } else if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    // path_ is now the old directory: the destructor removes it.
    sync_directory(target.parent_path());
  } else if (errno == EINVAL || errno == ENOSYS) {  // a file system that cannot exchange names
    fs::path old = path_;
    old += ".old";
    rename_file(target, old, ExitCode::kResources);
    rename_file(path_, target, ExitCode::kResources);
    committed_ = true;
    std::error_code ignored;
    fs::remove_all(old, ignored);
  } else {
    throw system_error(errno, "replace", target.string(), ExitCode::kResources);
  }
}

fs::path absolute_target(const fs::path& directory) {
  fs::path target = fs::absolute(directory).lexically_normal();
  return target.has_filename() ? target : target.parent_path();  // "model/"
}

fs::path temporary_beside(const fs::path& target) {
  return target.parent_path() /
         fmt::format(".{}.tmp{}", target.filename().string(), static_cast<int64_t>(getpid()));
}

}  // namespace athanor::checkpoint
