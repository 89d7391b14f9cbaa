// Token embedding.
#pragma once

#include "ops/context.h"

namespace athanor::ops {

/// out[t] = table[ids[t]]; table real [V, D], ids i32 [T] in [0, V), out real [T, D].
void embedding(Context& ctx, const Tensor& table, const Tensor& ids, const Tensor& out);
/// dtable[ids[t]] accumulates dout[t], for each row in the order of t.
void embedding_backward(Context& ctx, const Tensor& dout, const Tensor& ids, const Tensor& dtable);

}  // namespace athanor::ops
