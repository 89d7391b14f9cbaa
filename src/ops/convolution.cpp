// The two causal convolutions of CCA (ops/cca.h): the depthwise one is fused into writing the rows
// [y1[t−1] ‖ y1[t]] of a dense product per head, which is the grouped one.
#include <span>

#include "ops/cca.h"
#include "ops/checks.h"
#include "ops/cpu/cca.h"
#include "ops/cpu/reference/cca.h"
#include "ops/elementwise.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

void check_weights(const Checks& check, Heads heads, const ConvolutionWeights& w,
                   std::span<const PackedMatrix> grouped, int64_t n, int64_t k) {
  check.that(heads.key >= 1 && heads.query >= heads.key && heads.size >= 1, "heads out of range");
  check.real("depthwise", w.depthwise, heads.channels(), 2);
  check.real_vector("depthwise", w.depthwise, 2 * heads.channels());
  check.real_vector("depthwise_bias", w.depthwise_bias, heads.channels());
  check.real_vector("grouped_bias", w.grouped_bias, heads.channels());
  check.that(static_cast<int64_t>(grouped.size()) == heads.total(),
             "one packed matrix for each head");
  for (const PackedMatrix& matrix : grouped) {
    check.that(matrix.n == n && matrix.k == k && matrix.dtype == grouped[0].dtype,
               "a packed head is of another shape or dtype");
  }
}

/// Between w [d, d, 2] (out, in, tap) of one head and its matrix [d, 2d] over (tap 0, inputs) ‖
/// (tap 1, inputs).
template <class Move>
void for_each_tap(int64_t size, Move move) {
  for (int64_t o = 0; o < size; ++o) {
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t tap = 0; tap < 2; ++tap) {
        move((o * size + i) * 2 + tap, o * 2 * size + tap * size + i);
      }
    }
  }
}

template <class Real>
void to_matrix(const Tensor& w, int64_t head, int64_t size, const Tensor& matrix) {
  const Real* from = w.as<Real>() + head * size * size * 2;
  Real* to = matrix.as<Real>();
  for_each_tap(size, [&](int64_t tap_place, int64_t place) { to[place] = from[tap_place]; });
}

template <class Real>
void add_from_matrix(const Tensor& matrix, int64_t head, int64_t size, const Tensor& w) {
  const Real* from = matrix.as<Real>();
  Real* to = w.as<Real>() + head * size * size * 2;
  for_each_tap(size, [&](int64_t tap_place, int64_t place) { to[tap_place] += from[place]; });
}

void depthwise_windows(Context& ctx, const Tensor& c, const Tensor& history, Segments segments,
                       Heads heads, const ConvolutionWeights& w, const Tensor& windows) {
  const Tensor &taps = w.depthwise, &bias = w.depthwise_bias;
  if (!runs_reference(ctx, "cca_convolution", c.dtype())) {
    cpu::depthwise_windows(ctx, c, history, segments, heads, taps, bias, windows);
  } else if (!ctx.planning()) {
    reference::depthwise_windows(c, history, segments, heads, taps, bias, windows);
  }
}

/// As moves(), over packed matrices too.
OpWork moves_packed(const Tensor& shape_of, std::initializer_list<Tensor> operands,
                    std::initializer_list<std::span<const PackedMatrix>> packed) {
  OpWork work = moves(shape_of, operands);
  for (const auto& matrices : packed) {
    for (const PackedMatrix& matrix : matrices) {
      work.bytes += static_cast<double>(PackedMatrix::bytes(matrix.dtype, matrix.n, matrix.k));
    }
  }
  return work;
}

}  // namespace

void pack_convolution(Context& ctx, const Tensor& w, Heads heads, std::span<PackedMatrix> forward,
                      std::span<PackedMatrix> transposed) {
  const TraceSpan span(ctx, "pack_convolution",
                       [&] { return moves_packed(w, {w}, {forward, transposed}); });
  const Checks check("pack_convolution", w);
  const int64_t d = heads.size;
  check.real_vector("w", w, heads.channels() * d * 2);
  check.that(static_cast<int64_t>(forward.size()) == heads.total() &&
                 (transposed.empty() || transposed.size() == forward.size()),
             "one packed matrix for each head");
  const ArenaScope scope(ctx.scratch());
  const Tensor matrix = ctx.scratch().tensor(w.dtype(), {d, 2 * d});
  for (int64_t h = 0; h < heads.total(); ++h) {
    if (!ctx.planning()) {
      w.dtype() == DType::kF64 ? to_matrix<double>(w, h, d, matrix)
                               : to_matrix<float>(w, h, d, matrix);
    }
    pack(ctx, matrix, forward[h]);
    if (!transposed.empty()) pack_transposed(ctx, matrix, transposed[h]);
  }
}

void cca_convolution(Context& ctx, const Tensor& c, const Tensor& history, Segments segments,
                     Heads heads, const ConvolutionWeights& w, const Tensor& y2) {
  const TraceSpan span(ctx, "cca_convolution",
                       [&] { return moves_packed(c, {c, y2}, {w.grouped}); });
  const Checks check("cca_convolution", y2);
  const int64_t tokens = c.rows(), channels = heads.channels(), d = heads.size;
  check_weights(check, heads, w, w.grouped, d, 2 * d);
  check.real("c", c, tokens, channels);
  check.real("y2", y2, tokens, channels);
  check.segments(segments, tokens);
  if (!history.empty()) {
    check.real_vector("history", history, static_cast<int64_t>(segments.size() - 1) * 2 * channels);
  }
  const ArenaScope scope(ctx.scratch());
  const Tensor windows = ctx.scratch().tensor(w.grouped[0].dtype, {tokens, 2 * channels});
  depthwise_windows(ctx, c, history, segments, heads, w, windows);
  for (int64_t h = 0; h < heads.total(); ++h) {
    linear(ctx, windows.columns(h * 2 * d, 2 * d), w.grouped[h], y2.columns(h * d, d),
           w.grouped_bias.part(h * d, d));
  }
}

void cca_convolution_backward(Context& ctx, const Tensor& dy2, const Tensor& c, Segments segments,
                              Heads heads, const ConvolutionWeights& w, const Tensor& dc,
                              const ConvolutionGradients& gradients) {
  const TraceSpan span(ctx, "cca_convolution_backward",
                       [&] { return moves_packed(c, {dy2, c, dc}, {w.grouped_transposed}); });
  const Checks check("cca_convolution_backward", dc);
  const int64_t tokens = c.rows(), channels = heads.channels(), d = heads.size;
  check_weights(check, heads, w, w.grouped_transposed, 2 * d, d);
  check.real("dy2", dy2, tokens, channels);
  check.real("c", c, tokens, channels);
  check.real("dc", dc, tokens, channels);
  check.segments(segments, tokens);
  check.real_vector("gradient of depthwise", gradients.depthwise, 2 * channels);
  check.real_vector("gradient of depthwise_bias", gradients.depthwise_bias, channels);
  check.real_vector("gradient of grouped", gradients.grouped, 2 * channels * d);
  check.real_vector("gradient of grouped_bias", gradients.grouped_bias, channels);
  const DType real = check.real_dtype(), act = w.grouped_transposed[0].dtype;

  const ArenaScope scope(ctx.scratch());
  accumulate_column_sums(ctx, dy2, gradients.grouped_bias);
  {
    // dw[o, i, tap] = Σ_t dy2[t, o] · y1[t−1+tap, i]
    const ArenaScope inner(ctx.scratch());
    const Tensor windows = ctx.scratch().tensor(act, {tokens, 2 * channels});
    const Tensor dw = ctx.scratch().tensor(real, {heads.total(), d, 2 * d});
    depthwise_windows(ctx, c, {}, segments, heads, w, windows);
    fill(ctx, dw, 0.0);
    block_accumulate_outer(ctx, act, dy2, windows, dw);
    for (int64_t h = 0; h < heads.total() && !ctx.planning(); ++h) {
      real == DType::kF64 ? add_from_matrix<double>(dw.at(h), h, d, gradients.grouped)
                          : add_from_matrix<float>(dw.at(h), h, d, gradients.grouped);
    }
  }
  const Tensor dwindows = ctx.scratch().tensor(real, {tokens, 2 * channels});
  for (int64_t h = 0; h < heads.total(); ++h) {
    linear(ctx, dy2.columns(h * d, d), w.grouped_transposed[h], dwindows.columns(h * 2 * d, 2 * d));
  }
  if (!runs_reference(ctx, check)) {
    cpu::depthwise_windows_backward(ctx, dwindows, c, segments, heads, w.depthwise, dc,
                                    gradients.depthwise, gradients.depthwise_bias);
  } else if (!ctx.planning()) {
    reference::depthwise_windows_backward(dwindows, c, segments, heads, w.depthwise, dc,
                                          gradients.depthwise, gradients.depthwise_bias);
  }
}

}  // namespace athanor::ops
