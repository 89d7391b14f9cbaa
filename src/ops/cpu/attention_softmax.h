// The vector code of attention between its matrix products. Logits and their gradients lie transposed, [key][row] with
// kBlockRows floats from key to key; rows are the lanes.
#pragma once

#include "ops/cpu/attention.h"
#include "ops/cpu/simd.h"

namespace athanor::ops::cpu {

/// Panels of 16 rows by keys that the matrix kernels read as a left factor: f32 [key][16] or bf16 [key/2][16][2].
struct KeyPanels {
  std::byte* data = nullptr;
  int64_t stride = 0;  ///< bytes from panel to panel
  bool bf16 = false;
};

/// The softmax of one block of keys, on top of those before it.
struct OnlineSoftmax {
  AttentionRows rows;
  int64_t first = 0, count = 0;  ///< keys
  float* s = nullptr;            ///< logits
  KeyPanels p;                   ///< e^(s − largest); a key past an odd count is 0
  /// [kBlockRows] each: the running maximum and sum of a row, and what everything summed before is to be multiplied by.
  float *largest = nullptr, *sum = nullptr, *factor = nullptr;
};

/// From s = scale·q·k and dp = dout·v of one block: p = e^(s − lse) and ds = p · (dp − mean), with mean = Σ dout · out.
struct SoftmaxBackward {
  AttentionRows rows;
  int64_t first = 0, count = 0;
  float *s = nullptr, *dp = nullptr;
  const float *lse = nullptr, *mean = nullptr;      ///< [kBlockRows]
  std::byte *p_keys = nullptr, *ds_keys = nullptr;  ///< act [key][kBlockRows]; null: not wanted
  KeyPanels ds;                                     ///< data null: not wanted
  bool bf16 = false;
};

struct AttentionVectorKernels {
  void (*softmax)(const OnlineSoftmax&);
  void (*softmax_backward)(const SoftmaxBackward&);
  /// x[r][0…size) *= factor[r] for `rows` rows of `stride` floats.
  void (*scale_rows)(float* x, int64_t stride, int64_t rows, int64_t size, const float* factor);
  /// to[i] = factor · from[i]
  void (*scaled_row)(const float* from, int64_t size, float factor, FloatRow to);
  float (*row_dot)(FloatRow a, FloatRow b, int64_t size);
};

AttentionVectorKernels attention_vector_kernels(Isa isa);

}  // namespace athanor::ops::cpu
