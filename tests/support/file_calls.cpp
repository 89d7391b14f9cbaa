#include "support/file_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"

namespace athanor::test {
namespace {

std::mutex mutex;
FileCalls* recorder = nullptr;

void record_sync(int fd) {
  const std::scoped_lock lock(mutex);
  if (recorder == nullptr) return;
  std::error_code ignored;
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
  recorder->record({FileCall::Kind::kSync, path, {}, false});
}

void record_rename(const char* from, const char* to) {
  const std::scoped_lock lock(mutex);
  if (recorder == nullptr) return;
  std::error_code ignored;
  recorder->record({FileCall::Kind::kRename, from, to, fs::exists(to, ignored)});
}

template <class Wanted>
size_t first_call(const std::vector<FileCall>& calls, size_t from, Wanted wanted) {
  const auto found = std::find_if(
      calls.begin() + static_cast<ptrdiff_t>(std::min(from, calls.size())), calls.end(), wanted);
  return static_cast<size_t>(found - calls.begin());
}

}  // namespace

FileCalls::FileCalls() {
  const std::scoped_lock lock(mutex);
  require(recorder == nullptr, "two recorders of file calls");
  recorder = this;
}

FileCalls::~FileCalls() {
  const std::scoped_lock lock(mutex);
  recorder = nullptr;
}

void FileCalls::record(FileCall call) { calls_.push_back(std::move(call)); }

size_t FileCalls::sync_of(const fs::path& path, size_t from) const {
  return first_call(calls_, from, [&](const FileCall& call) {
    return call.kind == FileCall::Kind::kSync && call.path == path;
  });
}

size_t FileCalls::rename_to(const fs::path& to, size_t from) const {
  return first_call(calls_, from, [&](const FileCall& call) {
    return call.kind == FileCall::Kind::kRename && call.to == to;
  });
}

bool FileCalls::synced(const fs::path& path, size_t from, size_t until) const {
  return sync_of(path, from) < until;
}

std::string FileCalls::text() const {
  std::string all;
  for (const FileCall& call : calls_) {
    all += call.kind == FileCall::Kind::kSync
               ? "fsync " + call.path.string() + "\n"
               : "rename " + call.path.string() + " to " + call.to.string() + "\n";
  }
  return all;
}

}  // namespace athanor::test

// The program's own definitions go before the C library's; the kernel is asked all the same.
extern "C" int fsync(int fd) {
  athanor::test::record_sync(fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  athanor::test::record_rename(from, to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  athanor::test::record_rename(from, to);
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
