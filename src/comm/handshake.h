// The first bytes of a connection between two parents, by which each proves to the other that it knows the launch's secret.
//   acceptor → connector: mark, nonce
//   connector → acceptor: mark, own rank, nonce, hash of both nonces and both ranks
//   acceptor → connector: hash of the same, of another kind
#pragma once

#include <optional>
#include <string>

#include "base/files.h"
#include "comm/keyed_hash.h"

namespace athanor::comm {

/// One side of it on a non-blocking socket. Takes no byte beyond its own: what follows is left for a Channel.
class Handshake {
 public:
  enum class State : uint8_t { kGoing, kDone, kFailed };

  /// The side that accepts; `rank` is its own.
  static Handshake accept(FileDescriptor socket, const Secret& secret, int rank);
  /// The side that connects, as `rank`, to `peer`.
  static Handshake connect(FileDescriptor socket, const Secret& secret, int rank, int peer);

  /// Takes in and gives out what the socket allows.
  State advance();
  int fd() const { return socket_.get(); }
  /// True once this side's proof is out: the other may count the connection as made.
  bool committed() const { return stage_ > 0; }
  /// The other side's rank, once done.
  int peer() const { return peer_; }
  FileDescriptor take_socket() { return std::move(socket_); }

 private:
  Handshake(FileDescriptor socket, const Secret& secret, int rank, int peer, bool accepts);
  /// True when the step's bytes are all in; then they lie in in_.
  std::optional<bool> take(size_t bytes);
  bool give(const std::string& bytes);
  uint64_t proof(char kind) const;
  State step();

  FileDescriptor socket_;
  Secret secret_;
  int rank_;
  int peer_;
  bool accepts_;
  int stage_ = 0;
  std::string in_;
  std::string own_nonce_, other_nonce_;
};

}  // namespace athanor::comm
