#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace athanor {
namespace {

FileDescriptor open_checked(const fs::path& path, int flags, const char* action,
                            ExitCode otherwise) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) throw system_error(errno, action, path.string(), otherwise);
  return FileDescriptor(fd);
}

void write_all(int fd, const char* data, size_t bytes, const fs::path& path, ExitCode otherwise) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, data, std::min<size_t>(bytes, size_t{1} << 30));
    if (n < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "write", path.string(), otherwise);
    }
    data += n;
    bytes -= static_cast<size_t>(n);
  }
}

bool is_regular(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

/// fsync, where there is something to sync: pipes and devices answer EINVAL.
void sync_checked(int fd, const char* action, const fs::path& path, ExitCode otherwise) {
  if (fsync(fd) != 0 && errno != EINVAL)
    throw system_error(errno, action, path.string(), otherwise);
}

size_t file_size(int fd, const fs::path& path, ExitCode otherwise) {
  struct stat info{};
  if (fstat(fd, &info) != 0) throw system_error(errno, "read", path.string(), otherwise);
  if (S_ISDIR(info.st_mode)) throw system_error(EISDIR, "read", path.string(), otherwise);
  return static_cast<size_t>(info.st_size);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}
FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}
FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

std::string read_file(const fs::path& path, ExitCode otherwise) {
  const FileDescriptor file = open_checked(path, O_RDONLY, "read", otherwise);
  std::string content(file_size(file.get(), path, otherwise), '\0');
  size_t filled = 0;
  std::array<char, 65536> beyond;  // until end of file: pipes and growing files have no useful size
  while (true) {
    const bool full = filled == content.size();
    const ssize_t n = full ? ::read(file.get(), beyond.data(), beyond.size())
                           : ::read(file.get(), content.data() + filled, content.size() - filled);
    if (n < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "read", path.string(), otherwise);
    }
    if (n == 0) break;
    if (full) content.append(beyond.data(), static_cast<size_t>(n));
    filled += static_cast<size_t>(n);
  }
  content.resize(filled);
  return content;
}

void write_file_atomically(const fs::path& path, std::string_view content, ExitCode otherwise) {
  std::error_code ignored;
  // A device or a link such as /dev/stdout is written through: a rename would put a file in its place.
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    FileWriter device(path, otherwise);
    device.write(content.data(), content.size());
    device.close();
    return;
  }
  fs::path target = path;
  if (fs::is_symlink(path, ignored) && fs::exists(path, ignored)) target = fs::canonical(path);
  fs::path temporary = target;
  temporary += ".tmp" + std::to_string(getpid());
  {
    FileWriter writer(temporary, otherwise);
    writer.write(content.data(), content.size());
    writer.close();
  }
  try {
    rename_file(temporary, target, otherwise);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void rename_file(const fs::path& from, const fs::path& to, ExitCode otherwise) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw system_error(errno, "write", to.string(), otherwise);
  }
  sync_directory(to.parent_path());
  if (from.parent_path() != to.parent_path()) sync_directory(from.parent_path());
}

FileWriter::FileWriter(fs::path path, ExitCode otherwise)
    : path_(std::move(path)),
      otherwise_(otherwise),
      file_(open_checked(path_, O_WRONLY | O_CREAT | O_TRUNC, "write", otherwise)) {}

FileWriter::~FileWriter() {
  if (file_.valid() && is_regular(file_.get())) ::unlink(path_.c_str());
}

void FileWriter::write(const void* data, size_t bytes) {
  write_all(file_.get(), static_cast<const char*>(data), bytes, path_, otherwise_);
  offset_ += bytes;
}

void FileWriter::close() {
  sync_checked(file_.get(), "write", path_, otherwise_);
  struct stat info{};
  if (fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0) {
    throw resource_error(path_.string() + ": the file was removed while it was written");
  }
  file_ = FileDescriptor();
}

LineLog::LineLog(fs::path path)
    : path_(std::move(path)),
      file_(open_checked(path_, O_RDWR | O_CREAT | O_APPEND, "write", ExitCode::kUsage)) {
  const off_t size = lseek(file_.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && pread(file_.get(), &last, 1, size - 1) == 1 && last != '\n') {
    append("");  // a writer died in the middle of a line: the next line is a line of its own
  }
}

void LineLog::append(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  struct stat before{};
  const bool known = fstat(file_.get(), &before) == 0 && S_ISREG(before.st_mode);
  try {
    write_all(file_.get(), whole.data(), whole.size(), path_, ExitCode::kResources);
  } catch (const Error&) {  // a full disk may have taken half of the line
    if (known && ftruncate(file_.get(), before.st_size) != 0) {
      throw system_error(errno, "write half a line to", path_.string(), ExitCode::kResources);
    }
    throw;
  }
}

void LineLog::sync() { sync_checked(file_.get(), "write", path_, ExitCode::kResources); }

void sync_directory(const fs::path& folder) {
  const fs::path target = folder.empty() ? fs::path(".") : folder;
  const FileDescriptor file =
      open_checked(target, O_RDONLY | O_DIRECTORY, "open", ExitCode::kUsage);
  sync_checked(file.get(), "sync", target, ExitCode::kUsage);
}

void make_directories(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> made;  // the deepest first
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    made.push_back(at);
  }
  fs::create_directories(folder, error);
  if (error) throw system_error(error.value(), "create", folder.string(), ExitCode::kUsage);
  for (const fs::path& entry : made) sync_directory(entry.parent_path());
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

FileLock::FileLock(const fs::path& path, const std::string& in_use_message) {
  struct stat locked{}, named{};
  do {  // a holder may remove the file while it is being waited for: a lock on that one excludes nobody
    file_ = open_checked(path, O_RDWR | O_CREAT, "lock", ExitCode::kUsage);
    if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) throw usage_error(in_use_message);
      throw system_error(errno, "lock", path.string(), ExitCode::kUsage);
    }
  } while (fstat(file_.get(), &locked) != 0 || ::stat(path.c_str(), &named) != 0 ||
           locked.st_ino != named.st_ino || locked.st_dev != named.st_dev);
}

}  // namespace athanor
