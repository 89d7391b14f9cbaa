#include "data/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace athanor::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kLongestDocument = size_t{1} << 30;

}  // namespace

LineReader::LineReader(const fs::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!file_.valid()) throw system_error(errno, "read", path.string(), ExitCode::kData);
  while (buffer_.size() < 4 && fill()) {
  }
  const std::string_view head = buffer_;
  using std::string_view_literals::operator""sv;
  if (head.starts_with("\xFF\xFE"sv) || head.starts_with("\xFE\xFF"sv) ||
      head.starts_with("\0\0\xFE\xFF"sv)) {
    throw data_error(path.string() + ":1: this is UTF-16 or UTF-32; convert it to UTF-8 first");
  }
  if (head.starts_with("\xEF\xBB\xBF"sv)) begin_ = 3;
}

bool LineReader::fill() {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const size_t filled = buffer_.size();
  buffer_.resize(filled + kBufferBytes);
  ssize_t n = 0;
  do {
    n = ::read(file_.get(), buffer_.data() + filled, kBufferBytes);
  } while (n < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(filled + static_cast<size_t>(n < 0 ? 0 : n));
  if (n < 0) throw system_error(error, "read", path_.string(), ExitCode::kData);
  return n > 0;
}

bool LineReader::next(std::string& line) {
  bool any = false;
  while (true) {
    if (begin_ == buffer_.size()) {
      buffer_.clear();
      begin_ = 0;
      if (!fill()) break;
    }
    if (!any) ++number_;
    any = true;
    const size_t end = buffer_.find('\n', begin_);
    const size_t stop = end == std::string::npos ? buffer_.size() : end + 1;
    line.append(buffer_, begin_, stop - begin_);
    begin_ = stop;
    if (line.size() > kLongestDocument) {
      throw data_error(
          path_.string() + ":" + std::to_string(number_) +
          ": a document larger than 1 GiB; cut it into parts with lines <|endoftext|>");
    }
    if (end != std::string::npos) break;
  }
  return any;
}

}  // namespace athanor::data
