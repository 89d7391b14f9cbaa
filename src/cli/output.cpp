#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace athanor::cli {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

std::string& buffer() {
  static std::string text;
  return text;
}

}  // namespace

void print(std::string_view text) {
  buffer().append(text);
  if (buffer().size() >= kBufferBytes) flush_output();
}

void print_json(const nlohmann::json& value) {
  print(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void flush_output() {
  std::string text;
  text.swap(buffer());  // after a failure nothing is written twice
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR) {
      throw system_error(errno, "write", "standard output", ExitCode::kUsage);
    }
  }
}

}  // namespace athanor::cli
