// Fast cross-entropy of ops/loss.h for f32 and bf16: no checks, threaded.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace athanor::ops::cpu {

/// As reference::cross_entropy; logits [rows, V] (f32) are used up.
void cross_entropy(const Context& ctx, const Tensor& logits, const int32_t* targets, double scale,
                   const Tensor& loss, const Tensor& dlogits);

}  // namespace athanor::ops::cpu
