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
#include <memory>

namespace athanor::log {
namespace {

bool bar_on_screen = false;  // the main thread draws and warns; other threads do neither

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

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

void warning(std::string_view message) {
  clear_bar();
  logger().warn("{}", message);
}

void note(std::string_view message) {
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
      drawn_(start_) {}

Progress::~Progress() { clear_bar(); }

void Progress::update(int64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  const auto now = std::chrono::steady_clock::now();
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

void Progress::draw(bool last) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  std::string text = label_;
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    if (on_terminal()) {
      constexpr int kWidth = 24;
      const int filled = static_cast<int>(share * kWidth);
      std::string bar;
      for (int i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "─";
      text += " " + bar;
    }
    text += fmt::format(" {:3.0f} %", share * 100);
  }
  text += fmt::format("  {}{} {}", done_, total_ > 0 ? fmt::format("/{}", total_) : "", unit_);
  if (!detail_.empty()) text += "  " + detail_;
  if (last) {
    text += "  in " + duration_text(passed.count());
  } else if (total_ > 0 && done_ > already_ && done_ < total_) {
    const double left = passed.count() * static_cast<double>(total_ - done_) /
                        static_cast<double>(done_ - already_);
    text += "  " + duration_text(left) + " left";
  }
  if (!on_terminal()) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  // Cut to the terminal's width, counting code points: a wrapped line cannot be redrawn.
  const int columns = terminal_columns() - 1;
  size_t end = 0;
  for (int shown = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts_character && shown++ == columns) break;
  }
  text.resize(end);
  std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), last ? "\n" : "");
  std::fflush(stderr);
  bar_on_screen = !last;
}

}  // namespace athanor::log
