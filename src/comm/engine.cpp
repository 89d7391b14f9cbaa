#include "comm/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "comm/add.h"

namespace athanor::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// Sums that go on at a time on one rank; copies need no staging and have no limit.
constexpr int kSlots = 2;
constexpr size_t kMostStaging = size_t{256} << 20;
constexpr size_t kPartGrain = 4096;

/// Tags of calls lie above those of every kind of operation.
constexpr int kCallTag = 4 * Communicator::kTags;
int tag_of(Engine::Kind kind, int tag) {
  // A send meets a receive; a sum and a copy meet their own.
  const int family = kind == Engine::Kind::kReduce ? 0 : kind == Engine::Kind::kShare ? 1 : 2;
  return family * Communicator::kTags + tag;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Staging staging_of(int ranks, int node_ranks, size_t part_bytes) {
  const int sources = std::max(1, most_sources(ranks, node_ranks));
  const auto parts = static_cast<size_t>(sources) * kSlots;
  size_t largest = std::min({part_bytes, kMostStaging / parts, Transport::kMostBytes});
  largest = std::max(largest / kPartGrain * kPartGrain, kPartGrain);
  return {largest, sources, largest * parts};
}

Engine::Engine(const std::function<std::unique_ptr<Transport>()>& connect,
               CommunicatorOptions options)
    : options_(std::move(options)) {
  thread_ = std::thread([this, connect] { loop(connect); });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return connected_ || failure_; });
  if (failure_) {
    lock.unlock();
    thread_.join();
    std::rethrow_exception(failure_);
  }
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Engine::arrange(int node_ranks) {
  const int size = transport_->size();
  // Sums of nodes are subtrees of the sum over ranks only where nodes are equal and a power of two.
  const bool even = node_ranks > 0 && std::has_single_bit(static_cast<unsigned>(node_ranks)) &&
                    size % node_ranks == 0;
  options_.node_ranks = even ? node_ranks : 1;
  const Staging staging = staging_of(size, options_.node_ranks, options_.part_bytes);
  sources_ = staging.sources;
  largest_part_ = staging.part_bytes;
  staging_.resize(staging.bytes);
  slot_taken_.assign(kSlots, false);
}

void Engine::loop(const std::function<std::unique_ptr<Transport>()>& connect) {
  try {
    transport_ = connect();
    {
      const std::lock_guard lock(mutex_);
      connected_ = true;
    }
    done_.notify_all();
    while (take_new()) {
      if (advance()) {
        moved_ = Clock::now();
        idle_rounds_ = 0;
      } else {
        idle(waited_for(*going_.front()));
      }
    }
  } catch (...) {
    fail(std::current_exception());
  }
  transport_.reset();
}

void Engine::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }
  done_.notify_all();
}

bool Engine::take_new() {
  std::unique_lock lock(mutex_);
  if (going_.empty()) {
    wake_.wait(lock, [&] { return closing_ || !new_.empty(); });
    moved_ = Clock::now();
    idle_rounds_ = 0;
  }
  if (closing_) return false;
  while (!new_.empty()) {
    going_.push_back(std::move(new_.front()));
    new_.pop_front();
  }
  return true;
}

bool Engine::advance() {
  bool moved = false;
  for (size_t i = 0; i < going_.size();) {
    Operation& operation = *going_[i];
    if (!operation.begun) moved = begin(operation, i == 0) || moved;
    if (operation.begun) moved = poll(operation) || moved;
    const bool call = operation.kind == Kind::kCall;
    if (operation.begun && operation.passed_on && operation.sends.empty()) {
      end(i);
      moved = true;
    } else if (call) {
      break;  // nothing overtakes a call
    } else {
      ++i;
    }
  }
  return moved;
}

bool Engine::begin(Operation& operation, bool alone) {
  switch (operation.kind) {
    case Kind::kReduce:
      if (!begin_sum(operation)) return false;
      break;
    case Kind::kShare:
      begin_copy(operation);
      break;
    case Kind::kSend:
      send(operation, operation.peer);
      operation.passed_on = true;
      break;
    case Kind::kReceive:
      receive(operation, operation.within, operation.peer, operation.part.data());
      break;
    case Kind::kCall:
      if (!alone) return false;
      in_call_ = true;
      (*operation.call)();
      in_call_ = false;
      operation.passed_on = true;
      break;
  }
  operation.begun = true;
  return true;
}

bool Engine::begin_sum(Operation& operation) {
  operation.route =
      route(transport_->rank(), transport_->size(), options_.node_ranks, operation.peer);
  const Route& route = operation.route;
  if (!route.within.empty() || !route.across.empty()) {
    const auto free = std::ranges::find(slot_taken_, false);
    if (free == slot_taken_.end()) return false;
    *free = true;
    operation.slot = static_cast<int>(free - slot_taken_.begin());
  }
  std::byte* at =
      staging_.data() + static_cast<size_t>(std::max(0, operation.slot) * sources_) * largest_part_;
  for (const int from : route.within) {
    receive(operation, operation.within, from, at);
    at += largest_part_;
  }
  for (const int from : route.across) {
    receive(operation, operation.across, from, at);
    at += largest_part_;
  }
  return true;
}

void Engine::begin_copy(Operation& operation) {
  operation.route =
      route(transport_->rank(), transport_->size(), options_.node_ranks, operation.peer);
  if (operation.route.other >= 0) {
    receive(operation, operation.within, operation.route.other, operation.part.data());
  }
}

bool Engine::poll(Operation& operation) {
  if (operation.kind == Kind::kReduce && !operation.passed_on) return poll_sum(operation);
  bool moved = false;
  if (!operation.passed_on) {
    moved = poll_arrivals(operation, operation.within);
    if (std::ranges::all_of(operation.within, &Arrival::here)) pass_on(operation);
  }
  return poll_sends(operation) || moved;
}

bool Engine::poll_sum(Operation& operation) {
  bool moved = poll_arrivals(operation, operation.within);
  moved = poll_arrivals(operation, operation.across) || moved;
  if (!std::ranges::all_of(operation.within, &Arrival::here) ||
      !std::ranges::all_of(operation.across, &Arrival::here)) {
    return moved;
  }
  if (options_.order == Order::kTree) {
    add_up(operation, operation.within, transport_->rank());
    add_up(operation, operation.across, transport_->rank());
  }
  pass_on(operation);
  return true;
}

bool Engine::poll_arrivals(Operation& operation, std::vector<Arrival>& arrivals) {
  bool moved = false;
  for (Arrival& arrival : arrivals) {
    if (arrival.here || !transport_->ended(arrival.transfer)) continue;
    arrival.here = moved = true;
    if (operation.kind == Kind::kReduce && options_.order == Order::kArrival) {
      add(operation.part.dtype(), arrival.at, operation.part.data(), operation.part.numel());
    }
  }
  return moved;
}

void Engine::add_up(Operation& operation, std::vector<Arrival>& arrivals, int own_rank) {
  // The ranks' parts in their order, this one's among them.
  std::vector<std::byte*> parts;
  size_t own = 0;
  for (const Arrival& arrival : arrivals) {
    if (arrival.from < own_rank) ++own;
    parts.push_back(arrival.at);
  }
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(own), operation.part.data());
  add_tree(operation.part.dtype(), parts, own, operation.part.numel());
}

bool Engine::poll_sends(Operation& operation) {
  return std::erase_if(operation.sends, [&](Transport::Transfer transfer) {
           return transport_->ended(transfer);
         }) > 0;
}

void Engine::pass_on(Operation& operation) {
  const Route& route = operation.route;
  if (operation.kind == Kind::kReduce) {
    if (route.other >= 0) send(operation, route.other);
  } else if (operation.kind == Kind::kShare) {
    for (const int to : route.across) send(operation, to);
    for (const int to : route.within) send(operation, to);
  }
  operation.passed_on = true;
}

void Engine::send(Operation& operation, int to) {
  operation.sends.push_back(transport_->send({operation.part.data(), operation.part.bytes()}, to,
                                             tag_of(operation.kind, operation.tag)));
}

void Engine::receive(Operation& operation, std::vector<Arrival>& arrivals, int from,
                     std::byte* at) {
  const Transport::Transfer transfer = transport_->receive({at, operation.part.bytes()}, from,
                                                           tag_of(operation.kind, operation.tag));
  arrivals.push_back({from, at, transfer, false});
}

void Engine::exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) {
  Transport::Transfer sent = transport_->send(out, to, kCallTag);
  Transport::Transfer received = transport_->receive(in, from, kCallTag);
  bool send_open = true;
  bool receive_open = true;
  moved_ = Clock::now();
  idle_rounds_ = 0;
  while (send_open || receive_open) {
    if (receive_open && transport_->ended(received)) receive_open = false;
    if (send_open && transport_->ended(sent)) send_open = false;
    if (send_open || receive_open) idle(receive_open ? from : to);
  }
}

int Engine::waited_for(const Operation& operation) {
  for (const std::vector<Arrival>* arrivals : {&operation.within, &operation.across}) {
    for (const Arrival& arrival : *arrivals) {
      if (!arrival.here) return arrival.from;
    }
  }
  return operation.route.other >= 0 ? operation.route.other : operation.peer;
}

void Engine::idle(int peer) {
  // The core belongs to whoever computes: a few quick looks, then longer and longer pauses.
  constexpr int kQuickLooks = 64;
  constexpr int kLongestPause = 100;
  if (caller_waits_) options_.pulse->waiting(peer);
  ++idle_rounds_;
  if (idle_rounds_ < kQuickLooks) {
    std::this_thread::yield();
    return;
  }
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::min(kLongestPause, idle_rounds_ - kQuickLooks + 5)));
  if (idle_rounds_ % 1024 == 0 && !in_call_ && seconds_since(moved_) > options_.patience_seconds) {
    throw Error(ExitCode::kPeer, fmt::format("rank {} did not answer rank {} for {:.0f} s", peer,
                                             transport_->rank(), options_.patience_seconds));
  }
}

void Engine::end(size_t index) {
  std::unique_ptr<Operation> operation = std::move(going_[index]);
  going_.erase(going_.begin() + static_cast<std::ptrdiff_t>(index));
  if (operation->slot >= 0) slot_taken_[static_cast<size_t>(operation->slot)] = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase(open_, operation->ticket);
    spare_.push_back(std::move(operation));
  }
  done_.notify_all();
}

uint64_t Engine::push(Kind kind, const Tensor& part, int peer, int tag, const Call* call) {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (spare_.empty()) spare_.push_back(std::make_unique<Operation>());
  std::unique_ptr<Operation> operation = std::move(spare_.back());
  spare_.pop_back();
  *operation = {};
  operation->ticket = ++last_ticket_;
  operation->kind = kind;
  operation->part = part;
  operation->peer = peer;
  operation->tag = tag;
  operation->call = call;
  open_.push_back(operation->ticket);
  new_.push_back(std::move(operation));
  lock.unlock();
  wake_.notify_one();
  return last_ticket_;
}

uint64_t Engine::start(Kind kind, const Tensor& part, int peer, int tag) {
  require(part.contiguous() && part.bytes() <= largest_part_ && tag >= 0 &&
              tag < Communicator::kTags && peer >= 0 && peer < transport_->size(),
          "communicator: a part too large, not contiguous, or of an unknown rank or tag");
  return push(kind, part, peer, tag, nullptr);
}

template <class Ready>
void Engine::await(Ready ready) {
  caller_waits_ = true;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return failure_ || ready(); });
  caller_waits_ = false;
  if (failure_) std::rethrow_exception(failure_);
}

void Engine::wait(uint64_t ticket) {
  await([&] { return std::ranges::find(open_, ticket) == open_.end(); });
}

void Engine::finish() {
  await([&] { return open_.empty(); });
}

void Engine::run(Call call) { wait(push(Kind::kCall, {}, 0, 0, &call)); }

}  // namespace athanor::comm
