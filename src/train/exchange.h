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
  Exchange(const optim::Partition& partition, const model::Parameters& parameters,
           comm::Communicator& communicator);

  /// `gradient` is about to be completed, parameter by parameter.
  void begin_gradients(const model::FlatSpace& gradient);
  void ready(const model::Parameter& parameter) override;
  /// Everything is complete at once.
  void all_ready();

  /// Of `values` the owned elements are about to be set, the others to arrive.
  void begin_values(const model::FlatSpace& values);
  /// Owned elements [begin, end) are set.
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
  void begin(const model::FlatSpace& space);
  Tensor elements(const Part& part) const { return space_.part(part.begin, part.end - part.begin); }

  comm::Communicator& communicator_;
  std::vector<Part> parts_;
  std::vector<int64_t> missing_;  ///< elements of each part
  model::FlatSpace space_;
};

}  // namespace athanor::train
