#include "comm/message.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace athanor::comm {
namespace {

constexpr size_t kHeader = 5;  // u32 bytes of the body, u8 kind

uint32_t length_of(const std::string& bytes) {
  uint32_t length = 0;
  for (size_t i = 0; i < 4; ++i) {
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

MessageWriter& MessageWriter::number(int64_t value) {
  for (int i = 0; i < 8; ++i) {
    body_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF));
  }
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view value) {
  number(static_cast<int64_t>(value.size()));
  body_.append(value);
  return *this;
}

std::string_view MessageReader::take(size_t bytes) {
  if (bytes > rest_.size()) throw Error(ExitCode::kPeer, "a message between parents is cut short");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

int64_t MessageReader::number() {
  uint64_t value = 0;
  int shift = 0;
  for (const char byte : take(8)) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(byte)) << shift;
    shift += 8;
  }
  return static_cast<int64_t>(value);
}

std::string MessageReader::text() { return std::string(take(static_cast<size_t>(number()))); }

Channel::Channel(FileDescriptor socket) : socket_(std::move(socket)) { set_nonblocking(fd()); }

void Channel::send(MessageKind kind, std::string_view body) {
  if (!open()) return;
  for (int i = 0; i < 4; ++i) out_.push_back(static_cast<char>(body.size() >> (8 * i) & 0xFF));
  out_.push_back(static_cast<char>(kind));
  out_.append(body);
  flush();
}

void Channel::flush() {
  while (open() && !out_.empty()) {
    const ssize_t sent = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out_.erase(0, static_cast<size_t>(sent));
    } else if (would_block()) {
      return;
    } else {
      out_.clear();  // receive() will see the end, after what still came before it
    }
  }
}

void Channel::receive(std::vector<Message>& messages) {
  bool ended = false;
  std::array<char, 16384> buffer;
  while (open() && !ended) {
    const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      in_.append(buffer.data(), static_cast<size_t>(got));
    } else if (got < 0 && would_block()) {
      break;
    } else {
      ended = true;
    }
  }
  size_t at = 0;
  while (in_.size() - at >= kHeader) {
    const size_t length = length_of(in_.substr(at, 4));
    if (length > kMostBody) {
      ended = true;
      break;
    }
    if (in_.size() - at - kHeader < length) break;
    messages.push_back({static_cast<MessageKind>(in_[at + 4]), in_.substr(at + kHeader, length)});
    at += kHeader + length;
  }
  in_.erase(0, at);
  if (ended) close();
}

}  // namespace athanor::comm
