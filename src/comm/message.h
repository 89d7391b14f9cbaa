// What a worker and its parent, and the parents among themselves, tell each other; and the socket that carries it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace athanor::comm {

enum class MessageKind : uint8_t {
  // A parent and its worker.
  kAddress,  ///< parent → worker: where this parent listens
  kWorld,    ///< worker → parent: the launch's secret and every parent's address
  kMet,      ///< parent → worker: all parents are connected
  kLimit,    ///< worker → parent: comm.silence_limit
  kFailure,  ///< worker → parent: the code it is about to end with, and why
  kSignal,   ///< parent → worker: a signal to take as one's own
  // Parents among themselves.
  kBeat,     ///< the worker's pulse
  kExit,     ///< the worker has ended with a code
  kFault,    ///< something has gone wrong for good
  kVerdict,  ///< the line about it has been said
};

/// Puts numbers and texts into a message's body, little-endian.
class MessageWriter {
 public:
  MessageWriter& number(int64_t value);
  MessageWriter& text(std::string_view value);
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Takes them out again in the same order; kPeer when the body is not made of them.
class MessageReader {
 public:
  explicit MessageReader(std::string_view body) : rest_(body) {}
  int64_t number();
  std::string text();

 private:
  std::string_view take(size_t bytes);
  std::string_view rest_;
};

struct Message {
  MessageKind kind;
  std::string body;
};

/// A connected stream socket that carries whole messages and never blocks.
class Channel {
 public:
  static constexpr size_t kMostBody = size_t{64} << 20;

  Channel() = default;
  explicit Channel(FileDescriptor socket);

  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  /// Queues a message and writes what the socket takes; nothing on a closed channel.
  void send(MessageKind kind, std::string_view body);
  void flush();
  bool unsent() const { return !out_.empty(); }
  /// Appends the whole messages that have come. A channel whose other end is gone, or speaks nonsense, is then closed.
  void receive(std::vector<Message>& messages);
  void close() { socket_ = FileDescriptor(); }

 private:
  FileDescriptor socket_;
  std::string in_, out_;
};

/// Makes a socket non-blocking.
void set_nonblocking(int fd);

}  // namespace athanor::comm
