// Lines of a file that may be larger than memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"

namespace athanor::data {

/// Reads a file line by line. Lines end at \n alone. A UTF-8 byte order mark at the start of the
/// file is dropped.
class LineReader {
 public:
  /// data_error when the file cannot be read, or is UTF-16 or UTF-32 by its byte order mark.
  explicit LineReader(const fs::path& path);
  /// Appends the next line to `line`, its \n included where there is one; false, with nothing
  /// appended, at the end. data_error when `line` would pass 1 GiB: such a document is not one.
  bool next(std::string& line);
  /// The number, from 1, of the line that next() gave last.
  int64_t number() const { return number_; }

 private:
  bool fill();
  fs::path path_;
  FileDescriptor file_;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t number_ = 0;
};

}  // namespace athanor::data
