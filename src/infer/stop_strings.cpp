#include "infer/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/utf8.h"

namespace athanor::infer {
namespace {

/// Bytes at the end of `text` with which `wanted` begins, the whole of it excepted.
size_t begun(std::string_view text, std::string_view wanted) {
  for (size_t bytes = std::min(text.size(), wanted.size() - 1); bytes > 0; --bytes) {
    if (text.ends_with(wanted.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace

std::string StopStrings::push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t first = 0;  // where the one that is complete first begins
  size_t first_end = held_.size() + 1;
  size_t waiting = 0;
  for (const std::string& wanted : strings_) {
    const size_t found = held_.find(wanted);
    if (found != std::string::npos) {
      stopped_ = true;
      const size_t end = found + wanted.size();
      if (end < first_end || (end == first_end && found < first)) {
        first = found;
        first_end = end;
      }
    }
    waiting = std::max(waiting, begun(held_, wanted));
  }
  if (stopped_) {
    held_.resize(first);
    return std::exchange(held_, {});
  }
  std::string certain = held_.substr(0, held_.size() - waiting);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

void check_stop_strings(const std::vector<std::string>& strings) {
  for (const std::string& text : strings) {
    if (text.empty()) throw usage_error("--stop: an empty text would end every text at once");
    const size_t valid = data::valid_utf8_prefix(text);
    if (valid != text.size()) {
      throw usage_error(fmt::format("--stop: the text is not UTF-8 at byte {}", valid));
    }
  }
}

}  // namespace athanor::infer
