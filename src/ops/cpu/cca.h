// Fast kernels of the stages of ops/cca.h for f32 and bf16: no checks, threaded, one pass over memory.
#pragma once

#include "ops/cca.h"

namespace athanor::ops::cpu {

/// Both take scratch of their own; while planning only that. See ops/cpu/reference/cca.h for what they compute.
void depthwise_windows(const Context& ctx, const Tensor& c, const Tensor& history,
                       Segments segments, Heads heads, const Tensor& depthwise, const Tensor& bias,
                       const Tensor& windows);
void depthwise_windows_backward(const Context& ctx, const Tensor& dwindows, const Tensor& c,
                                Segments segments, Heads heads, const Tensor& depthwise,
                                const Tensor& dc, const Tensor& ddepthwise, const Tensor& dbias);

void qk_mean(const Context& ctx, const Tensor& c, Heads heads, const Tensor& z);
void qk_mean_backward(const Context& ctx, const Tensor& dz, Heads heads, const Tensor& dc);
void qk_norm_rope(const Context& ctx, const Tensor& z, Heads heads, const Tensor& temperature,
                  const RopeTable& rope, const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm);
/// Takes its partial sums from the scratch; while planning only that.
void qk_norm_rope_backward(const Context& ctx, const Tensor& dq, const Tensor& dk, const Tensor& z,
                           Heads heads, const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature);

void value_delay(const Context& ctx, const Tensor& current, const Tensor& delayed,
                 const Tensor& history, Segments segments, const Tensor& v);
void value_delay_backward(const Context& ctx, const Tensor& dv, Segments segments,
                          const Tensor& dcurrent, const Tensor& ddelayed);

}  // namespace athanor::ops::cpu
