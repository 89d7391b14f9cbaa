#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>

#include "base/log_file.h"

namespace athanor::log {
namespace {

bool bar_on_screen = false;  // the main thread draws and warns; other threads do neither

/// What to_file() has set; the main thread alone looks at it.
struct Destination {
  std::optional<LineLog> file;
  bool terminal = true;
};
Destination& destination() {
  static Destination instance;
  return instance;
}

bool on_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

void clear_bar() {
  if (bar_on_screen) std::fputs("\r\033[K", stderr);
  bar_on_screen = false;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("athanor",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%l: %v");
    return made;
  }();
  return *instance;
}

/// A log that cannot be written any more is given up, and says so where it can: the run matters more.
void write_to_file(std::string_view text) {
  if (!destination().file) return;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  try {
    destination().file->append(fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z {}",
                                           utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                                           utc.tm_hour, utc.tm_min, utc.tm_sec, text));
  } catch (const Error& error) {
    destination().file.reset();
    clear_bar();
    logger().warn("no more is logged to a file: {}", error.what());
  }
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

void to_file(const fs::path& path, bool terminal) {
  make_directories(path.parent_path());
  destination().file.emplace(path);
  destination().terminal = terminal;
}

void warning(std::string_view message) {
  write_to_file(fmt::format("warning: {}", message));
  if (!destination().terminal) return;
  clear_bar();
  logger().warn("{}", message);
}

void note(std::string_view message) {
  write_to_file(fmt::format("info: {}", message));
  if (!destination().terminal) return;
  clear_bar();
  logger().info("{}", message);
}

bool verbose(std::string_view topic) {
  static const std::string topics = [] {
    const char* text = std::getenv("ATHANOR_VERBOSE");
    return "," + std::string(text ? text : "") + ",";
  }();
  return topics.find("," + std::string(topic) + ",") != std::string::npos;
}

std::string duration_text(double seconds) {
  const auto s = std::llround(std::clamp(seconds, 0.0, 1e12));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d {:02}h", s / 86400, s / 3600 % 24);
}

Progress::Progress(std::string label, std::string unit, int64_t total, int64_t already)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      already_(already),
      done_(already),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_),
      filed_(start_) {}

Progress::~Progress() { clear_bar(); }

void Progress::update(int64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  const auto now = std::chrono::steady_clock::now();
  if (destination().file && now - filed_ >= std::chrono::minutes(1)) {
    filed_ = now;
    write_to_file(text(false, false));
  }
  const auto interval = on_terminal() ? std::chrono::milliseconds(100) : std::chrono::minutes(1);
  if (now - drawn_ < interval) return;
  drawn_ = now;
  draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  draw(true);
}

std::string Progress::text(bool bar, bool last) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  std::string line = label_;
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    if (bar) {
      constexpr int kWidth = 24;
      const int filled = static_cast<int>(share * kWidth);
      line += " ";
      for (int i = 0; i < kWidth; ++i) line += i < filled ? "━" : "─";
    }
    line += fmt::format(" {:3.0f} %", share * 100);
  }
  line += fmt::format("  {}{} {}", done_, total_ > 0 ? fmt::format("/{}", total_) : "", unit_);
  if (!detail_.empty()) line += "  " + detail_;
  if (last) {
    line += "  in " + duration_text(passed.count());
  } else if (total_ > 0 && done_ > already_ && done_ < total_) {
    const double left = passed.count() * static_cast<double>(total_ - done_) /
                        static_cast<double>(done_ - already_);
    line += "  " + duration_text(left) + " left";
  }
  return line;
}

void Progress::draw(bool last) {
  if (last) write_to_file(text(false, true));
  if (!destination().terminal) return;
  std::string line = text(on_terminal(), last);
  if (!on_terminal()) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  // Cut to the terminal's width, counting code points: a wrapped line cannot be redrawn.
  const int columns = terminal_columns() - 1;
  size_t end = 0;
  for (int shown = 0; end < line.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(line[end]) & 0xC0) != 0x80;
    if (starts_character && shown++ == columns) break;
  }
  line.resize(end);
  std::fprintf(stderr, "\r\033[K%s%s", line.c_str(), last ? "\n" : "");
  std::fflush(stderr);
  bar_on_screen = !last;
}

}  // namespace athanor::log
