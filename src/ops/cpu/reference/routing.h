// Plain twins of ops/routing.h: no checks, one thread, double inside.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace athanor::ops::reference {

void gelu(const Tensor& x, const Tensor& y);
void gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx);
void depth_average(const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state);
void depth_average_backward(const Tensor& dstate, const Tensor& gamma, const Tensor& previous,
                            const Tensor& dprevious, const Tensor& dgamma);
void route(const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight);
void route_backward(const Tensor& dweight, const Tensor& probability, const Tensor& expert,
                    const Tensor& dlogits);
void gather_rows(const Tensor& from, const int32_t* order, int64_t count, const Tensor& to);
void scatter_add_rows(const Tensor& from, const int32_t* order, int64_t count, const Tensor& to);
/// `place[t]` is the sorted place of token t, −1 without an expert.
void combine(const Tensor& y, const int32_t* place, const Tensor& weight, const Tensor& out);
void combine_backward(const Tensor& dout, const Tensor& y, const int32_t* place,
                      const Tensor& weight, const Tensor& dy, const Tensor& dweight);
void silu_product(const Tensor& gate_up, int64_t count, const Tensor& h);
void silu_product_backward(const Tensor& dh, const Tensor& gate_up, int64_t count,
                           const Tensor& dgate_up);

}  // namespace athanor::ops::reference
