// Plain twin of the cross-entropy of ops/loss.h: no checks, one thread, double inside.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace athanor::ops::reference {

/// loss[t] = logsumexp(logits[t]) − logits[t, target], 0 without a target. With dlogits (may be
/// empty) not empty also scale · (softmax − one at the target), 0 without a target.
void cross_entropy(const Tensor& logits, const int32_t* targets, double scale, const Tensor& loss,
                   const Tensor& dlogits);

}  // namespace athanor::ops::reference
