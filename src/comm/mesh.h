// The connections between the parents of a launch: each pair has one, so that every parent sees every other's end at once
// and all agree on who is left. A thousand idle connections a parent cost some memory of the kernel's and nothing else.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/handshake.h"
#include "comm/message.h"

namespace athanor::comm {

using Clock = std::chrono::steady_clock;

/// What a peer did: a message, or (without one) its connection's end.
struct PeerEvent {
  int rank;
  std::optional<Message> message;
};

/// Listens from the start, connects to all lower ranks once told where they are, and closes its port when all are there. A
/// stranger's connection is dropped at its first wrong byte or after a few seconds, and delays nobody.
class Mesh {
 public:
  Mesh();

  /// Where this parent listens and what its host is called, for the others.
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }

  /// Begins to connect. `addresses` are all ranks'. kUsage when this process may not open so many files.
  void meet(int rank, const Secret& secret, const std::vector<std::string>& addresses);
  bool met() const { return met_; }
  /// The hosts' names of all ranks, once meet() was called.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// A peer that could not be reached in time, and why; nothing while there is hope.
  std::optional<std::pair<int, std::string>> unreachable() const;

  /// Ranks that were connected since the last call.
  std::vector<int> take_newly_connected() { return std::exchange(newly_connected_, {}); }

  bool connected(int rank) const;
  void send(int rank, MessageKind kind, std::string_view body);
  void send_all(MessageKind kind, std::string_view body);
  bool unsent() const;

  /// Appends what poll(2) shall watch, then handles what it found there.
  void watch(std::vector<pollfd>& polled);
  std::vector<PeerEvent> work(const std::vector<pollfd>& polled);

 private:
  struct Address {
    std::string
        network;  ///< the kernel and the network namespace: equal where the loopback is shared
    std::string host;
    uint16_t port = 0;
    std::vector<std::string> numbers;
  };
  /// An attempt to reach a lower rank.
  struct Outgoing {
    int rank = 0;
    std::vector<std::string> numbers;
    size_t next = 0;
    FileDescriptor socket;  ///< until it is connected
    std::optional<Handshake> handshake;
    Clock::time_point begin;
    std::string failure = "no attempt yet";
  };
  struct Incoming {
    Handshake handshake;
    Clock::time_point begin;
  };

  static Address parse(const std::string& address);
  void start_attempt(Outgoing& outgoing);
  void drop_attempt(Outgoing& outgoing, const std::string& failure);
  void advance_outgoing(Outgoing& outgoing);
  void accept_all();
  void adopt(Handshake& handshake);
  void check_met();

  FileDescriptor listener_;
  uint16_t port_ = 0;
  std::string address_;
  int rank_ = 0;
  Secret secret_{};
  std::vector<Address> addresses_;
  std::vector<std::string> hosts_;
  std::vector<Channel> peers_;
  std::vector<bool> seen_;  ///< was connected once
  std::vector<int> newly_connected_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  Clock::time_point begin_;
  bool meeting_ = false;
  bool met_ = false;
  size_t first_polled_ = 0;
};

}  // namespace athanor::comm
