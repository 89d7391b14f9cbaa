#include <algorithm>
#include <cmath>

#include "ops/matrix_internal.h"

namespace athanor::ops {
namespace {

constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr double kSmallestNorm = 1e-7;

/// Σ g², in f64: over each row, then over the rows, in order.
template <class T>
double squares(const Tensor& g) {
  double sum = 0;
  for (int64_t r = 0; r < g.rows(); ++r) {
    const T* row = g.row<T>(r);
    double row_sum = 0;
    for (int64_t c = 0; c < g.cols(); ++c) {
      row_sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
    }
    sum += row_sum;
  }
  return sum;
}

/// x = g / norm, transposed where asked.
template <class T>
void normalise(const Threads& threads, const Tensor& g, double norm, bool transposed,
               const Tensor& x) {
  constexpr int64_t kBlock = 64;
  threads.run((x.rows() + kBlock - 1) / kBlock, [&](int64_t block, int) {
    for (int64_t r = block * kBlock; r < std::min(x.rows(), (block + 1) * kBlock); ++r) {
      T* to = x.row<T>(r);
      for (int64_t c = 0; c < x.cols(); ++c) {
        to[c] = static_cast<T>((transposed ? g.row<T>(c)[r] : g.row<T>(r)[c]) / norm);
      }
    }
  });
}

/// out = x, transposed back where it was transposed.
template <class T>
void write(const Threads& threads, const Tensor& x, bool transposed, const Tensor& out) {
  constexpr int64_t kBlock = 64;
  threads.run((out.rows() + kBlock - 1) / kBlock, [&](int64_t block, int) {
    for (int64_t r = block * kBlock; r < std::min(out.rows(), (block + 1) * kBlock); ++r) {
      T* to = out.row<T>(r);
      for (int64_t c = 0; c < out.cols(); ++c) to[c] = transposed ? x.row<T>(c)[r] : x.row<T>(r)[c];
    }
  });
}

template <class T>
void copy(const Tensor& from, const Tensor& to) {
  std::copy_n(from.as<T>(), from.numel(), to.as<T>());
}

template <class T>
void iterate(Context& ctx, DType compute, const Tensor& g, const Tensor& out, int steps) {
  const bool transposed = g.rows() > g.cols();
  const int64_t m = std::min(g.rows(), g.cols());
  const int64_t n = std::max(g.rows(), g.cols());
  const DType real = dtype_of<T>::value;
  const ArenaScope scope(ctx.scratch());
  Tensor x = ctx.scratch().tensor(real, {m, n});
  Tensor next = ctx.scratch().tensor(real, {m, n});
  const Tensor a = ctx.scratch().tensor(real, {m, m});  // A = X Xᵀ
  const Tensor b = ctx.scratch().tensor(real, {m, m});  // B = bA + cA²
  if (!ctx.planning()) {
    const double norm = std::max(std::sqrt(squares<T>(g)), kSmallestNorm);
    normalise<T>(ctx.threads(), g, norm, transposed, x);
  }
  for (int step = 0; step < steps; ++step) {
    product(ctx, compute, x, x, a, {.transpose_b = true}, true);
    if (!ctx.planning()) copy<T>(a, b);
    product(ctx, compute, a, a, b, {.alpha = kC, .beta = kB}, true);
    if (!ctx.planning()) copy<T>(x, next);
    matmul(ctx, compute, b, x, next, {.alpha = 1.0, .beta = kA});
    std::swap(x, next);
  }
  if (!ctx.planning()) write<T>(ctx.threads(), x, transposed, out);
}

}  // namespace

void newton_schulz(Context& ctx, DType compute, const Tensor& g, const Tensor& out, int steps) {
  require(g.rows() == out.rows() && g.cols() == out.cols() && g.dtype() == out.dtype(),
          "newton_schulz: g and out must have one shape and dtype");
  if (g.dtype() == DType::kF64) {
    iterate<double>(ctx, compute, g, out, steps);
  } else {
    iterate<float>(ctx, compute, g, out, steps);
  }
}

}  // namespace athanor::ops
