// Checksums of stored bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

namespace athanor {

/// XXH3-128 of some bytes, in canonical (big-endian) order.
using Digest = std::array<unsigned char, 16>;
/// Its 32 lower-case hex digits.
std::string hex_of(const Digest& digest);

/// XXH3-128 of a stream of bytes, as 32 lower-case hex digits: the text that manifests and shards hold.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void update(const void* data, size_t bytes);
  std::string hex() const;

  static std::string of(const void* data, size_t bytes);
  /// The same as bytes; allocates nothing.
  static Digest digest_of(const void* data, size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor
