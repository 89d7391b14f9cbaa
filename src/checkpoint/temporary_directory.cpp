#include "checkpoint/temporary_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>  // renameat2

#include "base/log.h"

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

void TemporaryDirectory::make_durable() const {
  if (!fs::is_directory(path_)) {
    throw resource_error(path_.string() + ": the directory vanished while it was written");
  }
  sync_directory(path_);
}

void TemporaryDirectory::commit_new(const fs::path& target) {
  make_durable();
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) {
      throw usage_error(target.string() +
                        " came to be while this was written, and nothing is replaced; name another "
                        "directory");
    }
    throw system_error(errno, "make", target.string(), ExitCode::kResources);
  }
  committed_ = true;
  sync_directory(target.parent_path());
}

void TemporaryDirectory::commit(const fs::path& target) {
  make_durable();
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
  const std::string prefix = fmt::format(".{}.tmp", target.filename().string());
  const std::string own = prefix + std::to_string(getpid());
  std::error_code error;
  for (fs::directory_iterator entry(target.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != own && name.size() > prefix.size() && name.starts_with(prefix) &&
        name.find_first_not_of("0123456789", prefix.size()) == std::string::npos) {
      log::warning(entry->path().string() +
                   " is what a process that was killed has left, unless one is writing there now: "
                   "remove it to have the space back");
    }
  }
  return target.parent_path() / own;
}

}  // namespace athanor::checkpoint
