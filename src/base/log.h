// What the program tells a person: warnings and notes on stderr, and a progress bar.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace athanor::log {

/// One line on stderr ("warning: …"); a progress bar on the terminal is cleared first and drawn again.
void warning(std::string_view message);
void note(std::string_view message);
/// True when the comma-separated ATHANOR_VERBOSE names `topic` (e.g. "kernels").
bool verbose(std::string_view topic);

/// Progress on stderr: a bar on a terminal (redrawn at most ten times a second), a line a minute otherwise.
class Progress {
 public:
  /// `total` units of `unit`; 0 when unknown. `already` of them were done before the clock started: they count as done,
  /// and not for what the rest will take.
  Progress(std::string label, std::string unit, int64_t total, int64_t already = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `done` units are done; `detail` goes behind the bar ("loss 3.21 · 9,120 tok/s · 41 % of ceiling").
  void update(int64_t done, std::string_view detail = {});
  /// What there is to do has changed.
  void set_total(int64_t total) { total_ = total; }
  void finish();

 private:
  std::string text(bool bar, bool last) const;
  void draw(bool last);
  std::string label_;
  std::string unit_;
  int64_t total_;
  int64_t already_;
  int64_t done_;
  std::string detail_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  std::chrono::steady_clock::time_point filed_;
  bool finished_ = false;
};

/// "1m 05s" for a person.
std::string duration_text(double seconds);

}  // namespace athanor::log
