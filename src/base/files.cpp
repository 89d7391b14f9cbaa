#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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

size_t regular_file_size(int fd, const fs::path& path, ExitCode otherwise) {
  struct stat info {};
  if (fstat(fd, &info) != 0) throw system_error(errno, "read", path.string(), otherwise);
  if (S_ISDIR(info.st_mode)) throw system_error(EISDIR, "read", path.string(), otherwise);
  return static_cast<size_t>(info.st_size);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}
FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

std::string read_file(const fs::path& path, ExitCode otherwise) {
  const FileDescriptor file = open_checked(path, O_RDONLY, "read", otherwise);
  std::string content(regular_file_size(file.get(), path, otherwise), '\0');
  size_t filled = 0;
  while (true) {  // until end of file: pipes and growing files have no useful size
    if (filled == content.size()) content.resize(std::max<size_t>(content.size() * 2, 65536));
    const ssize_t n = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (n < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "read", path.string(), otherwise);
    }
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  content.resize(filled);
  return content;
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const FileDescriptor file = open_checked(path, O_RDONLY, "read", ExitCode::kData);
  size_ = regular_file_size(file.get(), path, ExitCode::kData);
  if (size_ == 0) return;
  void* data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) throw system_error(errno, "map", path.string(), ExitCode::kData);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void write_file_atomically(const fs::path& path, std::string_view content, ExitCode otherwise) {
  fs::path temporary = path;
  temporary += ".tmp" + std::to_string(getpid());
  {
    FileWriter writer(temporary, otherwise);
    writer.write(content.data(), content.size());
    writer.close();
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw system_error(error, "write", path.string(), otherwise);
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

FileWriter::FileWriter(fs::path path, ExitCode otherwise)
    : path_(std::move(path)),
      otherwise_(otherwise),
      file_(open_checked(path_, O_WRONLY | O_CREAT | O_TRUNC, "write", otherwise)) {}

FileWriter::~FileWriter() {
  if (file_.valid()) ::unlink(path_.c_str());
}

void FileWriter::write(const void* data, size_t bytes) {
  write_all(file_.get(), static_cast<const char*>(data), bytes, path_, otherwise_);
  offset_ += bytes;
}

void FileWriter::close() {
  if (fsync(file_.get()) != 0) throw system_error(errno, "write", path_.string(), otherwise_);
  file_ = FileDescriptor();
}

LineLog::LineLog(fs::path path)
    : path_(std::move(path)),
      file_(open_checked(path_, O_WRONLY | O_CREAT | O_APPEND, "write", ExitCode::kUsage)) {}

void LineLog::append(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  write_all(file_.get(), whole.data(), whole.size(), path_, ExitCode::kResources);
}

void LineLog::sync() {
  if (fsync(file_.get()) != 0) {
    throw system_error(errno, "write", path_.string(), ExitCode::kResources);
  }
}

void sync_directory(const fs::path& folder) {
  const fs::path target = folder.empty() ? fs::path(".") : folder;
  const FileDescriptor file =
      open_checked(target, O_RDONLY | O_DIRECTORY, "open", ExitCode::kUsage);
  if (fsync(file.get()) != 0 && errno != EINVAL) {  // EINVAL: this file system has nothing to sync
    throw system_error(errno, "sync", target.string(), ExitCode::kUsage);
  }
}

void make_directories(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw system_error(error.value(), "create", folder.string(), ExitCode::kUsage);
}

FileLock::FileLock(const fs::path& path, const std::string& in_use_message)
    : file_(open_checked(path, O_RDWR | O_CREAT, "lock", ExitCode::kUsage)) {
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw usage_error(in_use_message);
    throw system_error(errno, "lock", path.string(), ExitCode::kUsage);
  }
}

}  // namespace athanor
