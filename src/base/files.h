// Files: whole reads, atomic durable writes, mappings and locks. Errors name the path and carry the exit code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace athanor {

namespace fs = std::filesystem;

/// An open file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The whole file as bytes. Throws `otherwise` (kData by default) when it cannot be read.
std::string read_file(const fs::path& path, ExitCode otherwise = ExitCode::kData);

/// Writes a file that appears complete or not at all: a temporary beside it, fsync, rename, fsync of the folder. A link is
/// followed, a device or pipe is written into. `otherwise` is the exit code of failures that are not a full disk.
void write_file_atomically(const fs::path& path, std::string_view content,
                           ExitCode otherwise = ExitCode::kUsage);

/// A file being written from front to back. Every write is checked; close() is durable (fsync).
/// Destroyed before close(), it removes what it wrote.
class FileWriter {
 public:
  explicit FileWriter(fs::path path, ExitCode otherwise = ExitCode::kUsage);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(const void* data, size_t bytes);
  uint64_t offset() const { return offset_; }
  void close();

 private:
  fs::path path_;
  ExitCode otherwise_;
  FileDescriptor file_;
  uint64_t offset_ = 0;
};

/// A log of whole lines (metrics.jsonl, events.jsonl): append writes one line with one write(2).
class LineLog {
 public:
  explicit LineLog(fs::path path);
  void append(std::string_view line);
  void sync();

 private:
  fs::path path_;
  FileDescriptor file_;
};

/// rename(2), replacing `to`; durable when it returns.
void rename_file(const fs::path& from, const fs::path& to, ExitCode otherwise = ExitCode::kUsage);
/// Makes the directory entry changes in `folder` durable.
void sync_directory(const fs::path& folder);
/// mkdir -p, durable when it returns; failures carry kUsage ("unwritable") or kResources.
void make_directories(const fs::path& folder);

/// True for a name that stays in its folder: not empty, at most 255 bytes, no separator or NUL in it, neither "." nor "..".
bool is_plain_file_name(std::string_view name);

/// An exclusive advisory lock on `path` (created if absent), held until destroyed or the process dies.
/// Throws kUsage with `in_use_message` when another process holds it.
class FileLock {
 public:
  FileLock(const fs::path& path, const std::string& in_use_message);

 private:
  FileDescriptor file_;
};

}  // namespace athanor
