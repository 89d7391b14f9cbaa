// Fast kernels of ops/routing.h and ops/embedding.h for f32 and bf16: no checks, threaded, one pass over memory.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace athanor::ops::cpu {

void gelu(const Context& ctx, const Tensor& x, const Tensor& y);
void gelu_backward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx);
void depth_average(const Context& ctx, const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state);
/// Takes its partial sums from the scratch; while planning only that.
void depth_average_backward(const Context& ctx, const Tensor& dstate, const Tensor& gamma,
                            const Tensor& previous, const Tensor& dprevious, const Tensor& dgamma);
void route(const Context& ctx, const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight);
void route_backward(const Context& ctx, const Tensor& dweight, const Tensor& probability,
                    const Tensor& expert, const Tensor& dlogits);
void gather_rows(const Context& ctx, const Tensor& from, const int32_t* order, int64_t count,
                 const Tensor& to);
/// Entries of `order` may repeat: each row of `to` receives its rows in their order.
void scatter_add_rows(const Context& ctx, const Tensor& from, const int32_t* order, int64_t count,
                      const Tensor& to);
/// `place[t]` is the sorted place of token t, −1 without an expert.
void combine(const Context& ctx, const Tensor& y, const int32_t* place, const Tensor& weight,
             const Tensor& out);
void combine_backward(const Context& ctx, const Tensor& dout, const Tensor& y, const int32_t* place,
                      const Tensor& weight, const Tensor& dy, const Tensor& dweight);
void silu_product(const Context& ctx, const Tensor& gate_up, int64_t count, const Tensor& h);
void silu_product_backward(const Context& ctx, const Tensor& dh, const Tensor& gate_up,
                           int64_t count, const Tensor& dgate_up);

}  // namespace athanor::ops::cpu
