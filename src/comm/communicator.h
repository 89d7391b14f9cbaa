// The ranks of a launch as the training loop sees them. One rank is not special: its communicator does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "comm/pulse.h"
#include "comm/transport.h"

namespace athanor::comm {

class Engine;

/// In which order the ranks' parts of a sum are added.
enum class Order : uint8_t {
  kTree,  ///< as a binary tree over ranks: the same bits for every arrival, node size and part size
  kArrival,  ///< as they arrive: no part waits for another, and no two runs need agree by bit
};

struct CommunicatorOptions {
  /// Ranks [n·node_ranks, (n+1)·node_ranks) share a node: sums and copies cross between nodes once. 0: as their hosts' names
  /// say. Where nodes are unequal, no power of two, or not of neighbours, it counts as 1: every rank is its own node.
  int node_ranks = 0;
  Order order = Order::kTree;
  /// Sums and copies are cut into parts of at most this size: what a rank takes in at once.
  size_t part_bytes = size_t{4} << 20;
  /// So long may the transfers of large things stand still before a peer counts as lost. Who waits in a small one may wait for a
  /// peer's long work: there the parents watch (comm/parent.h).
  double patience_seconds = 600;
  /// Hears of waiting; null for a page of its own, at which nobody looks.
  std::shared_ptr<Pulse> pulse;
};

/// What one rank takes for the parts of sums that arrive.
struct Staging {
  size_t part_bytes;  ///< the largest part
  int sources;        ///< parts of one sum
  size_t bytes;       ///< in all
};
/// For the options' part_bytes, which is less where many send to one.
Staging staging_of(int ranks, int node_ranks, size_t part_bytes);

/// All ranks call the same functions in the same order, from one thread each. Tensors are contiguous host memory.
/// What start_… begins goes on behind the caller's back, in a thread that makes every call of the transport, and is done when
/// wait() returns; until then its elements belong to the communicator. Failures of a peer, of the transport or of patience are
/// kPeer and leave the communicator of use for nothing.
class Communicator {
 public:
  using Ticket = uint64_t;
  /// Tags tell apart what is started under one name between two waits.
  static constexpr int kTags = 1 << 18;

  /// A world of one.
  Communicator();
  /// `connect` is called in the thread that will use the transport.
  Communicator(const std::function<std::unique_ptr<Transport>()>& connect,
               CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Ranks of a node, as sums and copies go by.
  int node_ranks() const;
  Pulse& pulse() { return *pulse_; }
  /// Name and version of what carries the bytes; empty in a world of one.
  const std::string& library() const { return library_; }

  // Small things. Each waits for all that was started before.

  /// t ← Σ over ranks, as a binary tree over them; f32, f64 or i64.
  void all_reduce_sum(const Tensor& t);
  /// What every rank gave, in their order; texts of any length.
  std::vector<std::string> all_gather(std::string_view mine);
  /// Rank `root`'s text on all ranks.
  std::string broadcast(std::string_view text, int root);
  void barrier();

  // Large things. A part is at most largest_part() bytes; parts of one tag are the same elements on every rank.

  size_t largest_part() const;
  /// On `owner`: part ← Σ over ranks, f32 or f64. Elsewhere the part holds nothing of use afterwards.
  Ticket start_reduce(const Tensor& part, int owner, int tag);
  /// The owner's part to all ranks.
  Ticket start_share(const Tensor& part, int owner, int tag);
  Ticket start_send(const Tensor& part, int to, int tag);
  Ticket start_receive(const Tensor& part, int from, int tag);
  void wait(Ticket ticket);
  /// Waits for all that was started.
  void finish();

 private:
  int rank_ = 0;
  int size_ = 1;
  std::string library_;
  std::shared_ptr<Pulse> pulse_;
  std::unique_ptr<Engine> engine_;  ///< none in a world of one
};

}  // namespace athanor::comm
