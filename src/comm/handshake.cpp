#include "comm/handshake.h"

#include <sys/socket.h>

#include <cerrno>

#include "comm/message.h"

namespace athanor::comm {
namespace {

const std::string kMark = "athanor1";
constexpr size_t kNonce = sizeof(Secret);
constexpr size_t kNumber = 8;

std::string fresh_nonce() {
  const Secret random = new_secret();
  return {random.begin(), random.end()};
}

std::string bytes_of(uint64_t value) {
  return MessageWriter().number(static_cast<int64_t>(value)).body();
}

}  // namespace

Handshake::Handshake(FileDescriptor socket, const Secret& secret, int rank, int peer, bool accepts)
    : socket_(std::move(socket)),
      secret_(secret),
      rank_(rank),
      peer_(peer),
      accepts_(accepts),
      own_nonce_(fresh_nonce()) {
  set_nonblocking(fd());
}

Handshake Handshake::accept(FileDescriptor socket, const Secret& secret, int rank) {
  return {std::move(socket), secret, rank, -1, true};
}

Handshake Handshake::connect(FileDescriptor socket, const Secret& secret, int rank, int peer) {
  return {std::move(socket), secret, rank, peer, false};
}

uint64_t Handshake::proof(char kind) const {
  const std::string& acceptors = accepts_ ? own_nonce_ : other_nonce_;
  const std::string& connectors = accepts_ ? other_nonce_ : own_nonce_;
  return keyed_hash(secret_, MessageWriter()
                                 .number(kind)
                                 .text(acceptors)
                                 .text(connectors)
                                 .number(accepts_ ? rank_ : peer_)
                                 .number(accepts_ ? peer_ : rank_)
                                 .body());
}

/// True once in_ holds so many bytes, false when more must come, nothing when none will.
std::optional<bool> Handshake::take(size_t bytes) {
  const size_t had = in_.size();
  in_.resize(bytes);
  const ssize_t got = ::recv(fd(), in_.data() + had, bytes - had, 0);
  in_.resize(had + static_cast<size_t>(got > 0 ? got : 0));
  if (got == 0) return std::nullopt;
  if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return std::nullopt;
  return in_.size() == bytes;
}

/// A few bytes on a fresh connection: the kernel takes them whole or the connection is of no use.
bool Handshake::give(const std::string& bytes) {
  return ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

Handshake::State Handshake::advance() {
  State state = State::kGoing;
  int stage = -1;
  while (state == State::kGoing && stage != stage_) {
    stage = stage_;
    state = step();
  }
  return state;
}

Handshake::State Handshake::step() {
  if (accepts_ && stage_ == 0) {
    if (!give(kMark + own_nonce_)) return State::kFailed;
    ++stage_;
    return State::kGoing;
  }
  const size_t wanted = accepts_      ? kMark.size() + kNumber + kNonce + kNumber
                        : stage_ == 0 ? kMark.size() + kNonce
                                      : kNumber;
  const std::optional<bool> whole = take(wanted);
  if (!whole) return State::kFailed;
  if (!*whole) {
    // Garbage is known by its first bytes; the rest need not be waited for.
    const bool marked = accepts_ || stage_ == 0;
    const size_t known = std::min(in_.size(), kMark.size());
    return marked && in_.compare(0, known, kMark, 0, known) != 0 ? State::kFailed : State::kGoing;
  }
  if (accepts_) {
    peer_ = static_cast<int>(MessageReader(std::string_view(in_).substr(kMark.size())).number());
    other_nonce_ = in_.substr(kMark.size() + kNumber, kNonce);
    const bool proven = in_.starts_with(kMark) && in_.ends_with(bytes_of(proof('c')));
    return proven && give(bytes_of(proof('a'))) ? State::kDone : State::kFailed;
  }
  if (stage_ == 0) {
    if (!in_.starts_with(kMark)) return State::kFailed;
    other_nonce_ = in_.substr(kMark.size());
    in_.clear();
    ++stage_;
    return give(kMark + bytes_of(static_cast<uint64_t>(rank_)) + own_nonce_ + bytes_of(proof('c')))
               ? State::kGoing
               : State::kFailed;
  }
  return in_ == bytes_of(proof('a')) ? State::kDone : State::kFailed;
}

}  // namespace athanor::comm
