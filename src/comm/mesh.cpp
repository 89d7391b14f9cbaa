#include "comm/mesh.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "comm/child.h"

namespace athanor::comm {
namespace {

constexpr auto kHandshakeLimit = std::chrono::seconds(5);
constexpr auto kAttemptLimit = std::chrono::seconds(3);
constexpr auto kRetryPause = std::chrono::milliseconds(100);
constexpr auto kMeetLimit = std::chrono::seconds(30);
constexpr size_t kStrangers = 64;  // connections under way beyond those that are expected

std::string errno_text() { return std::generic_category().message(errno); }

/// "boot id/network namespace".
std::string network_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status{};
  stat("/proc/self/ns/net", &status);
  return boot + "/" + std::to_string(status.st_ino);
}

/// This host's addresses that others may reach, IPv4 first; those of a link alone need a scope and are left out.
std::vector<std::string> own_numbers() {
  std::vector<std::string> v4, v6;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return v4;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 ||
        (at->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (at->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
      v4.emplace_back(text.data());
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
      v6.emplace_back(text.data());
    }
  }
  freeifaddrs(list);
  v4.insert(v4.end(), v6.begin(), v6.end());
  v4.resize(std::min<size_t>(v4.size(), 16));
  return v4;
}

/// A socket that listens on every interface, on a port that the kernel chooses.
FileDescriptor listen_anywhere(uint16_t& port) {
  for (const int family : {AF_INET6, AF_INET}) {
    FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) continue;
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    const int no = 0;
    if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const socklen_t bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), bytes) != 0) continue;
    if (listen(socket.get(), SOMAXCONN) != 0) continue;
    socklen_t given = sizeof any;
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &given);
    port = ntohs(family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&any)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&any)->sin_port);
    return socket;
  }
  throw system_error(errno, "listen on", "a TCP port for the other ranks' parents",
                     ExitCode::kPeer);
}

/// A non-blocking connect to `number`; an invalid descriptor with errno when it fails at once.
FileDescriptor begin_connect(const std::string& number, uint16_t port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const sockaddr* address = nullptr;
  socklen_t bytes = 0;
  if (inet_pton(AF_INET, number.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address = reinterpret_cast<const sockaddr*>(&v4);
    bytes = sizeof v4;
  } else if (inet_pton(AF_INET6, number.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address = reinterpret_cast<const sockaddr*>(&v6);
    bytes = sizeof v6;
  } else {
    errno = EINVAL;
    return FileDescriptor();
  }
  FileDescriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return socket;
  if (::connect(socket.get(), address, bytes) != 0 && errno != EINPROGRESS) return FileDescriptor();
  return socket;
}

/// Room for a connection to every rank, and for what else a program opens.
void require_descriptors(size_t ranks) {
  const rlim_t wanted = ranks + kStrangers + 64;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    throw usage_error(
        fmt::format("{} ranks need {} open files each, this process may have {}: raise ulimit -n",
                    ranks, wanted, limit.rlim_max));
  }
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Mesh::Mesh() {
  listener_ = listen_anywhere(port_);
  const std::vector<std::string> numbers = own_numbers();
  MessageWriter writer;
  writer.text(network_name()).text(own_host_name()).number(port_);
  writer.number(static_cast<int64_t>(numbers.size()));
  for (const std::string& number : numbers) writer.text(number);
  address_ = writer.body();
}

Mesh::Address Mesh::parse(const std::string& text) {
  MessageReader reader(text);
  Address address;
  address.network = reader.text();
  address.host = reader.text();
  address.port = static_cast<uint16_t>(reader.number());
  for (int64_t left = reader.number(); left > 0; --left) address.numbers.push_back(reader.text());
  return address;
}

void Mesh::meet(int rank, const Secret& secret, const std::vector<std::string>& addresses) {
  require_descriptors(addresses.size());
  rank_ = rank;
  secret_ = secret;
  for (const std::string& address : addresses) addresses_.push_back(parse(address));
  for (const Address& address : addresses_) hosts_.push_back(address.host);
  peers_.resize(addresses.size());
  seen_.assign(addresses.size(), false);
  begin_ = Clock::now();
  meeting_ = true;
  const std::string network = network_name();
  for (int lower = 0; lower < rank; ++lower) {
    const Address& address = addresses_[static_cast<size_t>(lower)];
    Outgoing outgoing;
    outgoing.rank = lower;
    if (address.network == network) outgoing.numbers.emplace_back("127.0.0.1");
    outgoing.numbers.insert(outgoing.numbers.end(), address.numbers.begin(), address.numbers.end());
    outgoing_.push_back(std::move(outgoing));
  }
  check_met();
}

std::optional<std::pair<int, std::string>> Mesh::unreachable() const {
  if (!meeting_ || met_ || Clock::now() - begin_ < kMeetLimit) return std::nullopt;
  for (const Outgoing& outgoing : outgoing_) {
    return std::pair(outgoing.rank, "its parent cannot be reached: " + outgoing.failure);
  }
  for (size_t rank = 0; rank < seen_.size(); ++rank) {
    if (seen_[rank] || static_cast<int>(rank) == rank_) continue;
    return std::pair(static_cast<int>(rank), std::string("its parent has not connected"));
  }
  return std::nullopt;
}

bool Mesh::connected(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return index < peers_.size() && peers_[index].open();
}

void Mesh::send(int rank, MessageKind kind, std::string_view body) {
  const auto index = static_cast<size_t>(rank);
  if (index < peers_.size()) peers_[index].send(kind, body);
}

void Mesh::send_all(MessageKind kind, std::string_view body) {
  for (Channel& peer : peers_) peer.send(kind, body);
}

bool Mesh::unsent() const {
  return std::ranges::any_of(peers_,
                             [](const Channel& peer) { return peer.open() && peer.unsent(); });
}

void Mesh::start_attempt(Outgoing& outgoing) {
  outgoing.begin = Clock::now();
  if (outgoing.numbers.empty()) {
    outgoing.failure = "its host has no address";
    return;
  }
  const std::string& number = outgoing.numbers[outgoing.next];
  outgoing.socket = begin_connect(number, addresses_[static_cast<size_t>(outgoing.rank)].port);
  if (!outgoing.socket.valid()) drop_attempt(outgoing, errno_text());
}

void Mesh::drop_attempt(Outgoing& outgoing, const std::string& failure) {
  outgoing.failure = fmt::format("{} port {}: {}", outgoing.numbers[outgoing.next],
                                 addresses_[static_cast<size_t>(outgoing.rank)].port, failure);
  outgoing.next = (outgoing.next + 1) % outgoing.numbers.size();
  outgoing.handshake.reset();
  outgoing.socket = FileDescriptor();
  outgoing.begin = Clock::now();
}

void Mesh::advance_outgoing(Outgoing& outgoing) {
  const bool idle = !outgoing.socket.valid() && !outgoing.handshake;
  const auto passed = Clock::now() - outgoing.begin;
  if (idle) {
    if (outgoing.begin == Clock::time_point() || passed > kRetryPause) start_attempt(outgoing);
    return;
  }
  if (outgoing.socket.valid()) {
    pollfd ready{outgoing.socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 1) {
      int failure = 0;
      socklen_t bytes = sizeof failure;
      getsockopt(outgoing.socket.get(), SOL_SOCKET, SO_ERROR, &failure, &bytes);
      if (failure != 0) {
        drop_attempt(outgoing, std::generic_category().message(failure));
        return;
      }
      outgoing.handshake.emplace(
          Handshake::connect(std::move(outgoing.socket), secret_, rank_, outgoing.rank));
    }
  }
  if (outgoing.handshake) {
    const Handshake::State state = outgoing.handshake->advance();
    if (state == Handshake::State::kDone) {
      adopt(*outgoing.handshake);
      return;
    }
    if (state == Handshake::State::kFailed) {
      drop_attempt(outgoing, "who listens there is not of this launch");
      return;
    }
  }
  // A connection that the other side may have made is not given up: its end would look like this parent's death.
  const bool committed = outgoing.handshake && outgoing.handshake->committed();
  if (passed > kAttemptLimit && !committed) drop_attempt(outgoing, "no answer");
}

void Mesh::accept_all() {
  while (true) {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    // Whoever waited longest goes: a rank that is dropped so tries again.
    if (incoming_.size() >= kStrangers + peers_.size()) incoming_.erase(incoming_.begin());
    incoming_.push_back({Handshake::accept(std::move(socket), secret_, rank_), Clock::now()});
  }
}

void Mesh::adopt(Handshake& handshake) {
  const auto index = static_cast<size_t>(handshake.peer());
  if (handshake.peer() < 0 || index >= peers_.size() || handshake.peer() == rank_ || seen_[index])
    return;
  const int yes = 1;
  setsockopt(handshake.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  peers_[index] = Channel(handshake.take_socket());
  seen_[index] = true;
  newly_connected_.push_back(handshake.peer());
}

void Mesh::check_met() {
  const auto seen = static_cast<size_t>(std::ranges::count(seen_, true));
  if (met_ || seen + 1 < seen_.size()) return;
  met_ = true;
  listener_ = FileDescriptor();
  incoming_.clear();
}

void Mesh::watch(std::vector<pollfd>& polled) {
  first_polled_ = polled.size();
  for (const Channel& peer : peers_) {
    const auto events =
        static_cast<short>(peer.open() && peer.unsent() ? POLLIN | POLLOUT : POLLIN);
    polled.push_back({peer.open() ? peer.fd() : -1, events, 0});
  }
  if (!meeting_ || met_) return;
  polled.push_back({listener_.get(), POLLIN, 0});
  for (const Incoming& incoming : incoming_) polled.push_back({incoming.handshake.fd(), POLLIN, 0});
  for (const Outgoing& outgoing : outgoing_) {
    if (outgoing.handshake) polled.push_back({outgoing.handshake->fd(), POLLIN, 0});
    if (outgoing.socket.valid()) polled.push_back({outgoing.socket.get(), POLLOUT, 0});
  }
}

std::vector<PeerEvent> Mesh::work(const std::vector<pollfd>& polled) {
  std::vector<PeerEvent> events;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const size_t at = first_polled_ + rank;
    if (at >= polled.size() || polled[at].fd < 0 || polled[at].revents == 0) continue;
    Channel& peer = peers_[rank];
    peer.flush();
    std::vector<Message> messages;
    peer.receive(messages);
    for (Message& message : messages)
      events.push_back({static_cast<int>(rank), std::move(message)});
    if (!peer.open()) events.push_back({static_cast<int>(rank), std::nullopt});
  }
  if (!meeting_ || met_) return events;
  accept_all();
  std::erase_if(incoming_, [&](Incoming& incoming) {
    const Handshake::State state = incoming.handshake.advance();
    if (state == Handshake::State::kDone) adopt(incoming.handshake);
    return state != Handshake::State::kGoing || Clock::now() - incoming.begin > kHandshakeLimit;
  });
  for (Outgoing& outgoing : outgoing_) advance_outgoing(outgoing);
  std::erase_if(outgoing_, [&](const Outgoing& outgoing) {
    return seen_[static_cast<size_t>(outgoing.rank)];
  });
  check_met();
  return events;
}

}  // namespace athanor::comm
