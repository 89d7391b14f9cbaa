// What carries bytes between the ranks of a launch: a module loaded at run time (DESIGN §2), one for each MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace athanor::comm {

/// Point-to-point transfers, none of which blocks. All calls, the destructor's too, come from the thread that made it.
/// Two transfers between the same pair under the same tag arrive in the order in which they were started.
class Transport {
 public:
  /// The most bytes of one transfer.
  static constexpr size_t kMostBytes = size_t{1} << 30;
  /// A transfer under way.
  using Transfer = uint64_t;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "Open MPI 4.1.4" and the like, for a person.
  virtual std::string library() const = 0;

  /// The bytes stay untouched, and where they are, until ended().
  virtual Transfer send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual Transfer receive(std::span<std::byte> bytes, int from, int tag) = 0;
  /// One poll: true once the transfer is done; its handle is then gone. Throws kPeer when the library reports a failure.
  virtual bool ended(Transfer transfer) = 0;
};

}  // namespace athanor::comm
