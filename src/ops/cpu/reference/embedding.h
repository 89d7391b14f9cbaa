// Plain twins of ops/embedding.h: no checks, one thread, double inside.
#pragma once

#include "base/tensor.h"

namespace athanor::ops::reference {

void embedding(const Tensor& table, const Tensor& ids, const Tensor& out);
void embedding_backward(const Tensor& dout, const Tensor& ids, const Tensor& dtable);

}  // namespace athanor::ops::reference
