// Plain twins of the stages of ops/cca.h: no checks, one thread, double inside.
#pragma once

#include "ops/cca.h"

namespace athanor::ops::reference {

/// The depthwise stage as the rows of the grouped product: windows [T, 2C], for each head its
/// y1[t−1] ‖ y1[t].
void depthwise_windows(const Tensor& c, const Tensor& history, Segments segments, Heads heads,
                       const Tensor& depthwise, const Tensor& bias, const Tensor& windows);
/// From dwindows [T, 2C]: dc is written, the gradients of the depthwise weights and bias
/// accumulate.
void depthwise_windows_backward(const Tensor& dwindows, const Tensor& c, Segments segments,
                                Heads heads, const Tensor& depthwise, const Tensor& dc,
                                const Tensor& ddepthwise, const Tensor& dbias);
void qk_mean(const Tensor& c, Heads heads, const Tensor& z);
void qk_mean_backward(const Tensor& dz, Heads heads, const Tensor& dc);
void qk_norm_rope(const Tensor& z, Heads heads, const Tensor& temperature, const RopeTable& rope,
                  const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm);
void qk_norm_rope_backward(const Tensor& dq, const Tensor& dk, const Tensor& z, Heads heads,
                           const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature);
void value_delay(const Tensor& current, const Tensor& delayed, const Tensor& history,
                 Segments segments, const Tensor& v);
void value_delay_backward(const Tensor& dv, Segments segments, const Tensor& dcurrent,
                          const Tensor& ddelayed);

}  // namespace athanor::ops::reference
