// Plain twins of ops/attention.h: no checks, one thread, double inside.
#pragma once

#include "ops/attention.h"

namespace athanor::ops::reference {

void attention(const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse);
void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

}  // namespace athanor::ops::reference
