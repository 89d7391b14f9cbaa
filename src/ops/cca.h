// The small ops of compressed convolutional attention between its projections and attention itself (zaya1.md §2.2, §2.8).
// Channels: c = [q0 ‖ k0] of C = (Hq + Hk)·d columns, query heads first.
#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "ops/matrix.h"

namespace athanor::ops {

/// Packed documents: segment s holds rows [begins[s], begins[s+1]); begins rises strictly from 0 to T.
using Segments = std::span<const int64_t>;

struct Heads {
  int64_t query = 0;  ///< Hq, a multiple of key
  int64_t key = 0;    ///< Hk
  int64_t size = 0;   ///< d
  int64_t total() const { return query + key; }
  int64_t channels() const { return (query + key) * size; }
};

/// The two causal convolutions' weights. The grouped one (one group per head, d→d, two taps) is packed per head in both
/// orientations: forward [d, 2d] over the columns (tap 0, inputs) ‖ (tap 1, inputs); backward its transpose [2d, d].
struct ConvolutionWeights {
  Tensor depthwise;                       ///< real [C, 2]; tap 0 is the older column
  Tensor depthwise_bias;                  ///< real [C]
  Tensor grouped_bias;                    ///< real [C]
  std::span<const PackedMatrix> grouped;  ///< Hq + Hk of n = d, k = 2d
  std::span<const PackedMatrix>
      grouped_transposed;  ///< Hq + Hk of n = 2d, k = d; may be empty for inference
};
struct ConvolutionGradients {
  Tensor depthwise, depthwise_bias, grouped,
      grouped_bias;  ///< real, accumulated; grouped is [C, d, 2]
};

/// Packs the grouped weights w [C, d, 2] (out, in, tap) into `forward` and, where not empty, `transposed`.
void pack_convolution(Context& ctx, const Tensor& w, Heads heads, std::span<PackedMatrix> forward,
                      std::span<PackedMatrix> transposed);

/// y2 = grouped(depthwise(c)), two zero columns (or `history`, real [S, 2, C], older first) left of every segment ONCE:
/// the virtual y1[−1] of a fresh segment is the depthwise bias. c real [T, C] (may be strided), y2 real [T, C].
/// Products in the packed dtype, sums and the depthwise stage real.
void cca_convolution(Context& ctx, const Tensor& c, const Tensor& history, Segments segments,
                     Heads heads, const ConvolutionWeights& w, const Tensor& y2);
/// dc is written; weight gradients accumulate. Fresh segments only (training).
void cca_convolution_backward(Context& ctx, const Tensor& dy2, const Tensor& c, Segments segments,
                              Heads heads, const ConvolutionWeights& w, const Tensor& dc,
                              const ConvolutionGradients& gradients);

/// z (in: y2, out: y2 + mean): z_q += (q0_h + k0_g(h))/2, z_k += mean over the group of the former. Means come from c.
void qk_mean(Context& ctx, const Tensor& c, Heads heads, const Tensor& z);
/// dc accumulates.
void qk_mean_backward(Context& ctx, const Tensor& dz, Heads heads, const Tensor& dc);

/// cos and sin [positions, rotary/2] (real) for positions 0 … positions−1, angle p·θ^(−2j/rotary), from base/math.
struct RopeTable {
  Tensor cos, sin;
  int64_t rotary = 0;  ///< rotated leading dimensions of a head, even; 0: none
};
RopeTable make_rope_table(Arena& arena, DType real, double theta, int64_t rotary,
                          int64_t positions);

/// q_h = rope(√d · z_h/√(Σz² + 1e-12)), k_g the same times temperature[g]. z real [T, C]; q act [T, Hq·d], k act
/// [T, Hk·d]; inv_norm real [T, Hq + Hk] = 1/√(Σz² + 1e-12); positions i32 [T].
void qk_norm_rope(Context& ctx, const Tensor& z, Heads heads, const Tensor& temperature,
                  const RopeTable& rope, const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm);
/// dz is written, dtemperature [Hk] accumulates; dq, dk real.
void qk_norm_rope_backward(Context& ctx, const Tensor& dq, const Tensor& dk, const Tensor& z,
                           Heads heads, const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature);

/// v[t] = [current[t] ‖ delayed[t−1]]; delayed before a segment's first row is `history` (real [S, h]) or 0. current and
/// delayed real [T, h] (may be strided), v act [T, 2h].
void value_delay(Context& ctx, const Tensor& current, const Tensor& delayed, const Tensor& history,
                 Segments segments, const Tensor& v);
/// dcurrent and ddelayed (real or act, may be strided) are written.
void value_delay_backward(Context& ctx, const Tensor& dv, Segments segments, const Tensor& dcurrent,
                          const Tensor& ddelayed);

}  // namespace athanor::ops
