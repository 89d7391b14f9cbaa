// The thread behind a Communicator: runs what was started, many transfers at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "comm/communicator.h"
#include "comm/route.h"

namespace athanor::comm {

/// Owns the transport: every call of it is made in the engine's thread.
class Engine {
 public:
  enum class Kind : uint8_t { kReduce, kShare, kSend, kReceive, kCall };
  /// A blocking exchange of a few bytes.
  using Call = FunctionRef<void()>;

  Engine(const std::function<std::unique_ptr<Transport>()>& connect, CommunicatorOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Cuts the ranks into nodes and takes the memory for sums; before anything is started.
  void arrange(int node_ranks);
  int node_ranks() const { return options_.node_ranks; }
  const Transport& transport() const { return *transport_; }
  size_t largest_part() const { return largest_part_; }
  uint64_t start(Kind kind, const Tensor& part, int peer, int tag);
  void wait(uint64_t ticket);
  void finish();
  /// Runs `call` in the engine's thread once all that was started has ended, and waits for it.
  void run(Call call);

  /// Inside a call: sends and receives to the end.
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from);

 private:
  struct Arrival {
    int from;
    std::byte* at;
    Transport::Transfer transfer;
    bool here;
  };
  struct Operation {
    uint64_t ticket = 0;
    Kind kind = Kind::kCall;
    Tensor part;
    int peer = 0;
    int tag = 0;
    const Call* call = nullptr;
    // Once it has begun:
    bool begun = false;
    bool passed_on = false;  ///< its sends are started
    int slot = -1;           ///< of staging
    Route route;
    std::vector<Arrival> within, across;
    std::vector<Transport::Transfer> sends;
  };
  using Operations = std::deque<std::unique_ptr<Operation>>;

  void loop(const std::function<std::unique_ptr<Transport>()>& connect);
  uint64_t push(Kind kind, const Tensor& part, int peer, int tag, const Call* call);
  /// Takes new operations over from the caller; false when the engine shall end.
  bool take_new();
  /// Begins what can begin and polls the rest once; true when something moved.
  bool advance();
  bool begin(Operation& operation, bool alone);
  bool begin_sum(Operation& operation);
  void begin_copy(Operation& operation);
  bool poll(Operation& operation);
  bool poll_sum(Operation& operation);
  bool poll_arrivals(Operation& operation, std::vector<Arrival>& arrivals);
  void add_up(Operation& operation, std::vector<Arrival>& arrivals, int own_rank);
  bool poll_sends(Operation& operation);
  void pass_on(Operation& operation);
  void send(Operation& operation, int to);
  void receive(Operation& operation, std::vector<Arrival>& arrivals, int from, std::byte* at);
  void end(size_t index);
  /// Nothing moved: gives the core away, tells who is waited for, and loses patience in the end.
  void idle(int peer);
  static int waited_for(const Operation& operation);
  void fail(std::exception_ptr failure);
  template <class Ready>
  void await(Ready ready);

  CommunicatorOptions options_;
  std::unique_ptr<Transport> transport_;
  size_t largest_part_ = 0;
  int sources_ = 0;  ///< parts that a slot of staging holds
  std::vector<std::byte> staging_;
  std::vector<bool> slot_taken_;
  Operations going_;  ///< the engine's own, in the order of their tickets

  mutable std::mutex mutex_;
  std::condition_variable wake_;  ///< for the engine: there is something new
  std::condition_variable done_;  ///< for the caller: something ended
  Operations new_;
  Operations spare_;
  std::vector<uint64_t> open_;  ///< tickets that have not ended, ascending
  uint64_t last_ticket_ = 0;
  bool connected_ = false;
  bool closing_ = false;
  std::exception_ptr failure_;

  std::atomic<bool> caller_waits_{false};
  std::chrono::steady_clock::time_point moved_;  ///< when something last moved
  int idle_rounds_ = 0;
  bool in_call_ = false;
  std::thread thread_;
};

}  // namespace athanor::comm
