#include "comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/add.h"
#include "comm/engine.h"

namespace athanor::comm {
namespace {

std::span<std::byte> bytes_of(std::vector<std::byte>& bytes, size_t begin, size_t count) {
  return std::span(bytes).subspan(begin, count);
}

/// Every rank's `mine`, all of one size, in the order of ranks: Bruck's algorithm, ⌈log₂ size⌉ rounds. Inside a call.
std::vector<std::byte> gather_equal(Engine& engine, std::span<const std::byte> mine) {
  const int rank = engine.transport().rank();
  const int size = engine.transport().size();
  const size_t each = mine.size();
  std::vector<std::byte> held(each * static_cast<size_t>(size));
  std::ranges::copy(mine, held.begin());
  // Block i is of rank + i.
  for (int have = 1; have < size; have *= 2) {
    const int more = std::min(have, size - have);
    engine.exchange(
        bytes_of(held, 0, each * static_cast<size_t>(more)), (rank - have + size) % size,
        bytes_of(held, each * static_cast<size_t>(have), each * static_cast<size_t>(more)),
        (rank + have) % size);
  }
  std::rotate(held.begin(),
              held.begin() + static_cast<std::ptrdiff_t>(each * static_cast<size_t>(size - rank)),
              held.end());
  return held;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// How many ranks each host has, where all have as many and they are neighbours; else 1.
int neighbours_on_a_host(const std::vector<std::string>& hosts) {
  const auto many = static_cast<size_t>(std::ranges::count(hosts, hosts.front()));
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const size_t first = rank / many * many;
    if (hosts[rank] != hosts[first]) return 1;
    if (first == rank && rank > 0 && hosts[rank] == hosts[rank - 1]) return 1;
  }
  return static_cast<int>(many);
}

}  // namespace

Communicator::Communicator() : pulse_(std::make_shared<Pulse>()) {}

Communicator::Communicator(const std::function<std::unique_ptr<Transport>()>& connect,
                           CommunicatorOptions options)
    : pulse_(options.pulse ? options.pulse : std::make_shared<Pulse>()) {
  options.pulse = pulse_;
  const int node_ranks = options.node_ranks;
  engine_ = std::make_unique<Engine>(connect, std::move(options));
  rank_ = engine_->transport().rank();
  size_ = engine_->transport().size();
  library_ = engine_->transport().library();
  engine_->arrange(node_ranks > 0 ? node_ranks : neighbours_on_a_host(all_gather(host_name())));
}

int Communicator::node_ranks() const { return engine_ ? engine_->node_ranks() : 1; }

Communicator::~Communicator() = default;

void Communicator::all_reduce_sum(const Tensor& t) {
  if (size_ == 1) return;
  require(t.contiguous(), "communicator: a sum of a tensor that is not contiguous");
  engine_->run([&] {
    std::vector<std::byte> all = gather_equal(*engine_, {t.data(), t.bytes()});
    std::vector<std::byte*> parts;
    for (size_t at = 0; at < all.size(); at += t.bytes()) parts.push_back(all.data() + at);
    add_tree(t.dtype(), parts, 0, t.numel());
    std::memcpy(t.data(), all.data(), t.bytes());
  });
}

std::vector<std::string> Communicator::all_gather(std::string_view mine) {
  if (size_ == 1) return {std::string(mine)};
  std::vector<std::string> texts;
  engine_->run([&] {
    const uint64_t length = mine.size();
    const std::vector<std::byte> all = gather_equal(*engine_, std::as_bytes(std::span(&length, 1)));
    std::vector<uint64_t> lengths(static_cast<size_t>(size_));
    std::memcpy(lengths.data(), all.data(), all.size());
    const uint64_t longest = *std::ranges::max_element(lengths);
    std::string padded(mine);
    padded.resize(longest);
    const std::vector<std::byte> held = gather_equal(*engine_, std::as_bytes(std::span(padded)));
    for (size_t r = 0; r < lengths.size(); ++r) {
      texts.emplace_back(reinterpret_cast<const char*>(held.data()) + r * longest, lengths[r]);
    }
  });
  return texts;
}

std::string Communicator::broadcast(std::string_view text, int root) {
  return all_gather(rank_ == root ? text : std::string_view())[static_cast<size_t>(root)];
}

void Communicator::barrier() { all_gather({}); }

size_t Communicator::largest_part() const {
  return engine_ ? engine_->largest_part() : Transport::kMostBytes;
}

Communicator::Ticket Communicator::start_reduce(const Tensor& part, int owner, int tag) {
  return engine_ ? engine_->start(Engine::Kind::kReduce, part, owner, tag) : 0;
}

Communicator::Ticket Communicator::start_share(const Tensor& part, int owner, int tag) {
  return engine_ ? engine_->start(Engine::Kind::kShare, part, owner, tag) : 0;
}

Communicator::Ticket Communicator::start_send(const Tensor& part, int to, int tag) {
  require(engine_ != nullptr, "communicator: a world of one has nobody to send to");
  return engine_->start(Engine::Kind::kSend, part, to, tag);
}

Communicator::Ticket Communicator::start_receive(const Tensor& part, int from, int tag) {
  require(engine_ != nullptr, "communicator: a world of one has nobody to receive from");
  return engine_->start(Engine::Kind::kReceive, part, from, tag);
}

void Communicator::wait(Ticket ticket) {
  if (engine_) engine_->wait(ticket);
}

void Communicator::finish() {
  if (engine_) engine_->finish();
}

}  // namespace athanor::comm
