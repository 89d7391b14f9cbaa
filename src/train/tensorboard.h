// TensorBoard event files, written by hand: five protobuf fields and a masked CRC-32C.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"

namespace athanor::train {

struct Scalar {
  std::string tag;  ///< "train/loss"
  double value = 0;
};

/// One event file. Every call of write is one write(2); failures carry kResources when the disk is full.
class TensorBoardWriter {
 public:
  /// Creates `folder`/events.out.tfevents.<seconds>.<host>.<process>.
  explicit TensorBoardWriter(const fs::path& folder);
  void write(int64_t step, std::span<const Scalar> scalars);
  const fs::path& path() const { return path_; }

 private:
  void append(const std::string& event);
  fs::path path_;
  FileDescriptor file_;
};

/// CRC-32C (Castagnoli) of `data`.
uint32_t crc32c(std::string_view data);

}  // namespace athanor::train
