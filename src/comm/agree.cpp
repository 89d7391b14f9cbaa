#include "comm/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace athanor::comm {
namespace {

/// How a failure travels: its exit code, a blank, its message. Success is no text at all.
std::string told(const Error& error) {
  return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
}

Error heard(const std::string& text, const std::string& prefix) {
  int code = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), code);
  require(fault == std::errc(), "communicator: a failure that cannot be read");
  return {static_cast<ExitCode>(code), prefix + (end + 1)};
}

}  // namespace

void agree(Communicator& communicator, FunctionRef<void()> action) {
  if (communicator.size() == 1) return action();
  std::optional<Error> own;
  try {
    action();
  } catch (const Error& error) {
    own = error;
  }
  const std::vector<std::string> all = communicator.all_gather(own ? told(*own) : std::string());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const Error first = heard(all[rank], rank == 0 ? "" : fmt::format("rank {}: ", rank));
    if (communicator.rank() == 0) throw first;
    throw Error(first.code(), "");
  }
}

std::string lead(Communicator& communicator, FunctionRef<std::string()> action) {
  std::string text;
  agree(communicator, [&] {
    if (communicator.rank() == 0) text = action();
  });
  return communicator.broadcast(text, 0);
}

void require_alike(Communicator& communicator, const std::string& what, const std::string& text) {
  const std::vector<std::string> all = communicator.all_gather(text);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    if (communicator.rank() != 0) throw Error(ExitCode::kUsage, "");
    const auto [mine, theirs] = std::ranges::mismatch(all[0], all[rank]);
    const auto line = [](const std::string& whole, std::string::const_iterator at) {
      const size_t from = whole.rfind('\n', static_cast<size_t>(at - whole.begin()));
      const size_t begin = from == std::string::npos ? 0 : from + 1;
      return whole.substr(begin, whole.find('\n', begin) - begin);
    };
    throw usage_error(fmt::format(
        "rank {} has another {} than rank 0: '{}' there, '{}' here; start all ranks alike", rank,
        what, line(all[rank], theirs), line(all[0], mine)));
  }
}

}  // namespace athanor::comm
