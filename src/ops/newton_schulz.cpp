#include <algorithm>
#include <cmath>

#include "ops/matrix_internal.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr double kSmallestNorm = 1e-7;

/// Rows that a task takes; sums run over tasks in order, so that no bit depends on threads.
constexpr int64_t kTaskRows = 32;
int64_t tasks_of(const Tensor& t) { return (t.rows() + kTaskRows - 1) / kTaskRows; }
int64_t end_of(const Tensor& t, int64_t task) { return std::min(t.rows(), (task + 1) * kTaskRows); }

/// Σ g² in f64: eight sums along each row, so that they can be computed side by side.
template <class T>
double squares(const Threads& threads, const Tensor& g, std::span<double> sums) {
  threads.run(tasks_of(g), [&](int64_t task, int) {
    constexpr int64_t kLanes = 8;
    double lanes[kLanes] = {};
    for (int64_t r = task * kTaskRows; r < end_of(g, task); ++r) {
      const T* row = g.row<T>(r);
      int64_t c = 0;
      for (; c + kLanes <= g.cols(); c += kLanes) {
        for (int64_t i = 0; i < kLanes; ++i) {
          const double value = row[c + i];
          lanes[i] += value * value;
        }
      }
      for (; c < g.cols(); ++c) lanes[0] += static_cast<double>(row[c]) * row[c];
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    sums[static_cast<size_t>(task)] = sum;
  });
  double sum = 0;
  for (int64_t i = 0; i < tasks_of(g); ++i) sum += sums[static_cast<size_t>(i)];
  return sum;
}

/// to = from · factor.
template <class T>
void scaled_copy(const Threads& threads, const Tensor& from, double factor, const Tensor& to) {
  threads.run(tasks_of(from), [&](int64_t task, int) {
    for (int64_t r = task * kTaskRows; r < end_of(from, task); ++r) {
      const T* source = from.row<T>(r);
      T* target = to.row<T>(r);
      for (int64_t c = 0; c < from.cols(); ++c) target[c] = static_cast<T>(source[c] * factor);
    }
  });
}

/// Takes the mean of a square matrix's diagonal from the diagonal and returns it.
template <class T>
double take_diagonal(const Tensor& a) {
  double sum = 0;
  for (int64_t i = 0; i < a.rows(); ++i) sum += static_cast<double>(a.row<T>(i)[i]);
  const T mean = static_cast<T>(sum / static_cast<double>(a.rows()));
  for (int64_t i = 0; i < a.rows(); ++i) a.row<T>(i)[i] -= mean;
  return static_cast<double>(mean);
}

// A tall G is not transposed: with X = Yᵀ the iteration reads Y ← aY + Y(bA + cA²), A = YᵀY, as A is symmetric.
//
// With A = sI + E, s the mean of A's diagonal:
//   aX + (bA + cA²)X = (a + bs + cs²)X + ((b + 2cs)E + cE²)X
// In this form what bf16 rounds is E, which shrinks as X becomes orthogonal, and not the large part that all of X has in
// common.
template <class T>
void iterate(Context& ctx, DType compute, const Tensor& g, const Tensor& out, int steps) {
  const bool tall = g.rows() > g.cols();
  const int64_t m = std::min(g.rows(), g.cols());
  const DType real = dtype_of<T>::value;
  Arena& arena = ctx.scratch();
  const ArenaScope scope(arena);
  Tensor x = arena.tensor(real, {g.rows(), g.cols()});
  Tensor next = arena.tensor(real, {g.rows(), g.cols()});
  const Tensor e = arena.tensor(real, {m, m});  // A = XXᵀ, then E
  const Tensor b = arena.tensor(real, {m, m});  // (b + 2cs)E + cE²
  const Tensor sums = arena.tensor(DType::kF64, {tasks_of(g)});
  if (!ctx.planning()) {
    const double total =
        squares<T>(ctx.threads(), g, {sums.as<double>(), static_cast<size_t>(sums.numel())});
    scaled_copy<T>(ctx.threads(), g, 1.0 / std::max(std::sqrt(total), kSmallestNorm), x);
  }
  for (int step = 0; step < steps; ++step) {
    product(ctx, compute, x, x, e, e, {.transpose_a = tall, .transpose_b = !tall}, true);
    const double s = ctx.planning() ? 0.0 : take_diagonal<T>(e);
    product(ctx, compute, e, e, e, b, {.alpha = kC, .beta = kB + 2 * kC * s}, true);
    product(ctx, compute, tall ? x : b, tall ? b : x, x, next,
            {.alpha = 1.0, .beta = kA + (kB + kC * s) * s}, false);
    std::swap(x, next);
  }
  if (!ctx.planning()) scaled_copy<T>(ctx.threads(), x, 1.0, out);
}

}  // namespace

double newton_schulz_flops(int64_t rows, int64_t cols, int steps) {
  const auto m = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  return steps * (m * (m + 1) * (n + m) + 2 * m * m * n);
}

void newton_schulz(Context& ctx, DType compute, const Tensor& g, const Tensor& out, int steps) {
  require(g.rows() == out.rows() && g.cols() == out.cols() && g.dtype() == out.dtype(),
          "newton_schulz: g and out must have one shape and dtype");
  const TraceSpan span(ctx, "newton_schulz", [&] { return moves(g, {g, out}); });
  if (g.dtype() == DType::kF64) {
    iterate<double>(ctx, compute, g, out, steps);
  } else {
    iterate<float>(ctx, compute, g, out, steps);
  }
}

}  // namespace athanor::ops
