// What ranks exchange in a step: gradients as the backward completes them, parameters as the optimizer moves them.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "optim/partition.h"

namespace athanor::train {

/// Cuts the flat space into parts of one owner each. A part travels as soon as all of its elements are there: gradients to
/// their owner while the backward goes on, moved parameters from it while the optimizer does. In a world of one nothing
/// travels. Both ways go as: begin, every element once, finish.
class Exchange final : public model::GradientSink {
 public:
  Exchange(const optim::Partition& partition, comm::Communicator& communicator, DType real);

  /// `gradient` (real, the flat space) is about to be completed, parameter by parameter.
  void begin_gradients(const Tensor& gradient);
  void ready(const model::Parameter& parameter) override;
  /// Everything is complete at once.
  void all_ready();

  /// `values` (real, the flat space): owned elements are about to be moved, the others to arrive.
  void begin_values(const Tensor& values);
  /// Owned elements [begin, end) have moved.
  void moved(int64_t begin, int64_t end);

  /// Waits until this rank has its sums, or all values.
  void finish();

 private:
  struct Part {
    int64_t begin, end;
    int owner;
  };
  template <class Complete>
  void count(int64_t begin, int64_t end, Complete complete);
  void begin(const Tensor& flat);

  comm::Communicator& communicator_;
  std::vector<Part> parts_;
  std::vector<int64_t> missing_;  ///< elements of each part
  Tensor flat_;
};

}  // namespace athanor::train
