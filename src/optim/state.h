// Optimizer state as checkpoints see it: named views.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"

namespace athanor::optim {

/// A view of one tensor's state, or of the part of it that this rank has, under its checkpoint name
/// "optimizer.<kind>.<parameter>".
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< of all of it: the parameter's
  int64_t begin = 0;           ///< first element of the flattened whole that `value` holds
  Tensor value;                ///< 1-D
};

}  // namespace athanor::optim
