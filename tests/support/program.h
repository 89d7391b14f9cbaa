// Runs the program itself, as a person or a script would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::test {

struct Outcome {
  int code = 0;  ///< exit code, or 128 + the signal that ended it
  std::string out;
  std::string err;
  int64_t peak_bytes = 0;  ///< the most memory that it had resident
};

/// Where the program's stdout goes.
enum class Sink { kCaptured, kFullDisk, kClosed, kClosedPipe };

/// `athanor ARGUMENTS…` with extra environment entries ("NAME=value").
Outcome athanor(const std::vector<std::string>& arguments, Sink sink = Sink::kCaptured,
                const std::vector<std::string>& environment = {});

/// How often `text` ends a line. An error is exactly one line.
int lines_of(const std::string& text);

/// Expects exit code `code`, nothing on stdout, and one line "athanor: …" on stderr that holds `part`.
void expect_refusal(const Outcome& outcome, int code, const std::string& part);

}  // namespace athanor::test
