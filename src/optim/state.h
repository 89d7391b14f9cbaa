// Optimizer state as checkpoints see it: named views.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"

namespace athanor::optim {

/// A view of one tensor's state under its checkpoint name, "optimizer.<kind>.<parameter>".
struct StateTensor {
  std::string name;
  Tensor value;
};

}  // namespace athanor::optim
