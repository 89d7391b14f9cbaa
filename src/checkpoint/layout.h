// The two layouts of ZAYA1's weights on disk (zaya1.md §5.3–5.5): which tensors there are, and which elements of the model each
// of them holds. Loading, import, export and diff all go by this table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace athanor::checkpoint {

/// Native: one tensor a parameter, as transformers 5 names them. Legacy: a layer is two half-layers, each expert's matrices are
/// tensors of their own, and residual scales stand at the half-layer that reads them.
enum class Layout : uint8_t { kNative, kLegacy };

/// "native" or "legacy".
const char* name_of(Layout layout);

/// A tensor of a model under its native name.
struct ModelTensor {
  model::ParameterSpec spec;
  bool balancing = false;  ///< a balancing bias: no parameter, always stored as fp32
};

/// All tensors of a model: the parameters in the order of the flat space, then the balancing biases.
std::vector<ModelTensor> model_tensors(const model::ModelConfig& config);

/// A tensor as a layout stores it: elements [begin, begin + numel()) of the flattened model_tensors()[tensor].
struct LayoutTensor {
  std::string name;
  std::vector<int64_t> shape;
  size_t tensor = 0;
  int64_t begin = 0;
  int64_t numel() const;
};

/// The tensors of `layout`, in the order in which its writers fill shards: native as transformers registers the modules, legacy
/// by name. Together they hold every element of the model once.
std::vector<LayoutTensor> layout_tensors(const model::ModelConfig& config, Layout layout);

}  // namespace athanor::checkpoint
