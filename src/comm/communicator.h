// Process groups and collectives. The training loop always talks to a Communicator; one rank is not special.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/tensor.h"

namespace athanor::comm {

/// A group of ranks that call the same collectives in the same order. Tensors are host memory, contiguous.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// t ← sum over ranks, added as a fixed binary tree over ranks.
  virtual void all_reduce_sum(const Tensor& t) = 0;
  /// flat [size · shard] → this rank's shard of the sum, in place at its own offset.
  virtual void reduce_scatter_sum(const Tensor& flat) = 0;
  /// Every rank's shard of flat [size · shard] to every rank.
  virtual void all_gather(const Tensor& flat) = 0;
  virtual void broadcast(const Tensor& t, int root) = 0;
  virtual void barrier() = 0;
};

/// A world of one: every collective is the identity.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace athanor::comm
