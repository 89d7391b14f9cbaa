// The depthwise convolution of CCA as it enters and leaves the grouped one's products (ops/cpu/cca.h).
#include <cstring>

#include "ops/cpu/cca.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/cca_convolution.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

#ifndef ATHANOR_OPS_CPU_CCA_CONVOLUTION_TYPES
#define ATHANOR_OPS_CPU_CCA_CONVOLUTION_TYPES
namespace athanor::ops::cpu {

/// The depthwise weights [C, 2] with their taps apart, and the bias.
struct Taps {
  const float* older;
  const float* newer;
  const float* bias;
};

/// Rows [first, last) of one segment [begin, end) for the backward pass.
struct Piece {
  int64_t begin, end, first, last;
};

/// Where a block's sums over tokens go, C floats each.
struct TapSums {
  float* older;
  float* newer;
  float* bias;
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// y1 = older ⊙ before + newer ⊙ now + bias, written as the newer half of each head's window of this row and, where the
/// next row wants it, as the older half of its.
void depthwise_row(const float* before, const float* now, const Taps& w, int64_t heads,
                   int64_t size, FloatRow window, FloatRow next_window) {
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t base = h * size;
    const FloatRow newer = window.from(2 * base + size), older = next_window.from(2 * base);
    for_vectors(size, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
      const auto fresh =
          hn::MulAdd(load(w.newer + base, i, n), load(now + base, i, n), load(w.bias + base, i, n));
      const auto y1 = hn::MulAdd(load(w.older + base, i, n), load(before + base, i, n), fresh);
      if (newer.data != nullptr) store(y1, newer, i, n);
      if (older.data != nullptr) store(y1, older, i, n);
    });
  }
}

/// dy1[t] = dwindows[t] (newer half) + dwindows[t+1] (older half, inside the segment); y1[−1] is the bias alone.
void depthwise_piece_backward(const Tensor& dwindows, const Tensor& c, const Piece& piece,
                              const Taps& w, int64_t heads, int64_t size, const Tensor& dc,
                              const TapSums& sums) {
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t base = h * size;
    for_vectors(size, [&](int64_t i, size_t n) ATHANOR_INLINE_BODY {
      const int64_t channel = base + i, older_column = 2 * base + i;
      const auto dy1 = [&](int64_t t) ATHANOR_INLINE_BODY {
        if (t >= piece.end) return hn::Zero(kFloat);
        const auto newer = load(dwindows.row<float>(t), older_column + size, n);
        if (t + 1 >= piece.end) return newer;
        return hn::Add(newer, load(dwindows.row<float>(t + 1), older_column, n));
      };
      const auto older = load(w.older, channel, n), newer = load(w.newer, channel, n);
      auto older_sum = load(sums.older, channel, n), newer_sum = load(sums.newer, channel, n);
      auto bias_sum = load(sums.bias, channel, n);
      auto before = hn::Zero(kFloat);
      if (piece.first > piece.begin) {
        before = load(c.row<float>(piece.first - 1), channel, n);
      } else {
        bias_sum = hn::Add(bias_sum, load(dwindows.row<float>(piece.begin), older_column, n));
      }
      auto d = dy1(piece.first);
      for (int64_t t = piece.first; t < piece.last; ++t) {
        const auto next = dy1(t + 1);
        const auto now = load(c.row<float>(t), channel, n);
        older_sum = hn::MulAdd(d, before, older_sum);
        newer_sum = hn::MulAdd(d, now, newer_sum);
        bias_sum = hn::Add(bias_sum, d);
        store(hn::MulAdd(newer, d, hn::Mul(older, next)), dc.row<float>(t), channel, n);
        before = now;
        d = next;
      }
      store(older_sum, sums.older, channel, n);
      store(newer_sum, sums.newer, channel, n);
      store(bias_sum, sums.bias, channel, n);
    });
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(depthwise_row);
HWY_EXPORT(depthwise_piece_backward);

/// body(s, first, last): the rows [first, last) of [begin, end) that lie in segment s, for each that has some.
template <class Body>
void for_segments_in(Segments segments, int64_t begin, int64_t end, Body body) {
  size_t low = 0, high = segments.size() - 1;  // segments[low] <= begin < segments[high]
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (segments[middle] <= begin ? low : high) = middle;
  }
  for (size_t s = low; s + 1 < segments.size() && segments[s] < end; ++s) {
    const int64_t first = segments[s] > begin ? segments[s] : begin;
    const int64_t last = segments[s + 1] < end ? segments[s + 1] : end;
    body(s, first, last);
  }
}

/// Takes scratch for the taps of w [C, 2] apart and, unless planning, fills it.
Taps split_taps(const Context& ctx, const Tensor& w, const Tensor& bias) {
  const int64_t channels = bias.numel();
  float* older = ctx.scratch().tensor(DType::kF32, {channels}).as<float>();
  float* newer = ctx.scratch().tensor(DType::kF32, {channels}).as<float>();
  if (!ctx.planning()) {
    for (int64_t c = 0; c < channels; ++c) {
      older[c] = w.as<float>()[2 * c];
      newer[c] = w.as<float>()[2 * c + 1];
    }
  }
  return {older, newer, bias.as<float>()};
}

}  // namespace

void depthwise_windows(const Context& ctx, const Tensor& c, const Tensor& history,
                       Segments segments, Heads heads, const Tensor& depthwise, const Tensor& bias,
                       const Tensor& windows) {
  const ArenaScope scope(ctx.scratch());
  const int64_t channels = heads.channels();
  const Taps taps = split_taps(ctx, depthwise, bias);
  float* zeros = ctx.scratch().tensor(DType::kF32, {channels}).as<float>();
  if (ctx.planning()) return;
  std::memset(zeros, 0, static_cast<size_t>(channels) * sizeof(float));
  const auto kernel = &ATHANOR_KERNEL(depthwise_row, ctx.isa());
  const FloatRows out(windows);
  for_row_blocks(ctx, c.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    for_segments_in(segments, begin, end, [&](size_t s, int64_t first, int64_t last) {
      // Row t of the segment, which two rows of history or zeros precede.
      const auto row = [&](int64_t t) -> const float* {
        if (t >= segments[s]) return c.row<float>(t);
        if (history.empty()) return zeros;
        return history.as<float>() + (2 * static_cast<int64_t>(s) + 2 + t - segments[s]) * channels;
      };
      kernel(row(first - 2), row(first - 1), taps, heads.total(), heads.size, {}, out[first]);
      for (int64_t t = first; t < last; ++t) {
        kernel(row(t - 1), row(t), taps, heads.total(), heads.size, out[t],
               t + 1 < last ? out[t + 1] : FloatRow{});
      }
    });
  });
}

void depthwise_windows_backward(const Context& ctx, const Tensor& dwindows, const Tensor& c,
                                Segments segments, Heads heads, const Tensor& depthwise,
                                const Tensor& dc, const Tensor& ddepthwise, const Tensor& dbias) {
  const ArenaScope scope(ctx.scratch());
  const int64_t channels = heads.channels();
  const Taps taps = split_taps(ctx, depthwise, dbias);
  const PartialSums partial(ctx.scratch(), c.rows(), 3, channels);
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(depthwise_piece_backward, ctx.isa());
  for_row_blocks(ctx, c.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    const TapSums sums{partial.block(begin, 0), partial.block(begin, 1), partial.block(begin, 2)};
    std::memset(sums.older, 0, static_cast<size_t>(3 * channels) * sizeof(float));
    for_segments_in(segments, begin, end, [&](size_t s, int64_t first, int64_t last) {
      kernel(dwindows, c, {segments[s], segments[s + 1], first, last}, taps, heads.total(),
             heads.size, dc, sums);
    });
  });
  partial.add_to(ctx, 0, ddepthwise.as<float>(), 2, nullptr);
  partial.add_to(ctx, 1, ddepthwise.as<float>() + 1, 2, nullptr);
  partial.add_to(ctx, 2, dbias.as<float>(), 1, nullptr);
}

void value_delay(const Context& ctx, const Tensor& current, const Tensor& delayed,
                 const Tensor& history, Segments segments, const Tensor& v) {
  const RowKernel copy = convert_kernel(ctx.isa());
  const FloatRows now(current), late(delayed), out(v);
  const int64_t width = current.cols();
  for_row_blocks(ctx, v.rows(), rows_per_task(2 * width), [&](int64_t begin, int64_t end) {
    for_segments_in(segments, begin, end, [&](size_t s, int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        copy(now[t], out.at(t, 0), width);
        if (t > segments[s]) {
          copy(late[t - 1], out.at(t, width), width);
        } else if (!history.empty()) {
          copy(FloatRows(history)[static_cast<int64_t>(s)], out.at(t, width), width);
        } else {
          std::memset(out.at(t, width).data, 0, static_cast<size_t>(width) * size_of(v.dtype()));
        }
      }
    });
  });
}

void value_delay_backward(const Context& ctx, const Tensor& dv, Segments segments,
                          const Tensor& dcurrent, const Tensor& ddelayed) {
  const RowKernel copy = convert_kernel(ctx.isa());
  const FloatRows d(dv), now(dcurrent), late(ddelayed);
  const int64_t width = dcurrent.cols();
  for_row_blocks(ctx, dv.rows(), rows_per_task(2 * width), [&](int64_t begin, int64_t end) {
    for_segments_in(segments, begin, end, [&](size_t s, int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        copy(d.at(t, 0), now[t], width);
        if (t + 1 < segments[s + 1]) {
          copy(d.at(t + 1, width), late[t], width);
        } else {
          std::memset(late[t].data, 0, static_cast<size_t>(width) * size_of(ddelayed.dtype()));
        }
      }
    });
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
