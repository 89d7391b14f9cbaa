#include "ops/cpu/reference/embedding.h"

#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {

void embedding(const Tensor& table, const Tensor& ids, const Tensor& out) {
  const Elements rows(table), result(out);
  const int32_t* id = ids.as<int32_t>();
  for (int64_t t = 0; t < out.rows(); ++t) {
    for (int64_t c = 0; c < out.cols(); ++c) result.set(t, c, rows.get(id[t], c));
  }
}

void embedding_backward(const Tensor& dout, const Tensor& ids, const Tensor& dtable) {
  const Elements d(dout), rows(dtable);
  const int32_t* id = ids.as<int32_t>();
  for (int64_t t = 0; t < dout.rows(); ++t) {
    for (int64_t c = 0; c < dout.cols(); ++c) rows.add(id[t], c, d.get(t, c));
  }
}

}  // namespace athanor::ops::reference
