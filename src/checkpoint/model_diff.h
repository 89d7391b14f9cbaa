// `checkpoint diff`: which tensors of two models differ, and by how much, whatever their layouts and dtypes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/open_model.h"

namespace athanor::checkpoint {

/// One tensor in both models, its values compared in fp32 (exact for every stored dtype).
struct TensorDifference {
  std::string name;  ///< native
  DType dtype_a = DType::kF32, dtype_b = DType::kF32;
  int64_t elements = 0;
  int64_t differing = 0;          ///< whose bits differ
  int64_t differing_as_bf16 = 0;  ///< whose bits still differ when both are rounded to bf16
  int64_t not_finite_a = 0, not_finite_b = 0;  ///< NaN and infinities
  double largest = 0;                          ///< max |a − b| over elements finite in both
  double relative =
      0;  ///< ‖a − b‖ / ‖a‖ over the same; 0 where both are 0, infinity where a alone is
};

struct ModelDifference {
  std::vector<TensorDifference>
      tensors;  ///< all that both have in the same shape, in the model's order
  std::vector<std::string> only_a, only_b;
  std::vector<std::string> other_shape;  ///< "NAME: F32[2] and F32[3]"
  std::vector<std::string> config;       ///< "KEY: 1 and 2": geometry and special ids
  bool equal() const;
};

/// Reads both models through, piece by piece; of two checkpoints the optimizers' state, too. Errors as DirectoryWeights and
/// Checkpoint; numbers that are not finite are counted, not refused.
ModelDifference diff_models(const OpenedModel& a, const OpenedModel& b);

/// For a person: what differs, tensor by tensor, or that nothing does.
std::string to_text(const ModelDifference& difference);
/// `--json`: one object {"equal", "tensors_compared", "different": […], "only_in_a", "only_in_b", "other_shape", "config"}.
std::string to_json(const ModelDifference& difference);

}  // namespace athanor::checkpoint
