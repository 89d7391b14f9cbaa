#include <algorithm>
#include <chrono>
#include <vector>

#include "ops/cpu/matrix_kernel.h"
#include "ops/cpu/reference/matrix_reference.h"
#include "ops/matrix.h"

namespace athanor::ops {
namespace {

/// Calls of `work`, each of `flops`, for `seconds` on one thread: flops per second of the median call, which neither a
/// preemption nor a moment's higher clock moves.
template <class Work>
double rate(double flops, double seconds, const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();  // warms caches
  std::vector<double> times;
  const auto start = Clock::now();
  for (auto before = start;
       times.empty() || before - start < std::chrono::duration<double>(seconds);) {
    work();
    const auto after = Clock::now();
    times.push_back(std::chrono::duration<double>(after - before).count());
    before = after;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return flops / *middle;
}

/// The sum of the rates of all threads, which measure at the same time.
template <class Measure>
double total_rate(const Context& ctx, const Measure& measure) {
  std::vector<double> rates(static_cast<size_t>(ctx.threads().count()));
  ctx.threads().run(ctx.threads().count(), [&](int64_t task, int thread) {
    rates[static_cast<size_t>(task)] = measure(thread);
  });
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

// A block whose factors stay in the first two cache levels: 384 KiB of f32, 192 KiB of bf16.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 192;
constexpr int64_t kDepth = 256;

/// `count` bytes for each thread, zeroed: products of zeros take the time of any others.
struct PerThread {
  std::byte* base;
  int64_t count;
  PerThread(const Context& ctx, int64_t bytes) : count((bytes + 63) / 64 * 64) {
    const int64_t all = count * ctx.threads().count();
    base = static_cast<std::byte*>(ctx.scratch().allocate(static_cast<size_t>(all)));
    if (!ctx.planning()) std::fill_n(base, all, std::byte{0});
  }
  std::byte* of(int thread) const { return base + thread * count; }
};

MatrixCeiling fast_ceiling(const Context& ctx, const cpu::MatrixKernel& kernel, double seconds) {
  const int64_t lines = cpu::lines_of(kernel.compute, kDepth);
  const int64_t panel = cpu::panel_bytes(kernel.compute, kDepth);
  const ArenaScope scope(ctx.scratch());
  const PerThread a(ctx, kRows * lines * 4);
  const PerThread b(ctx, cpu::panels_of(kColumns) * panel);
  const PerThread y(ctx, kRows * kColumns * 4);
  const PerThread scratch(ctx, static_cast<int64_t>(kernel.scratch_bytes(kRows, kColumns, lines)));
  if (ctx.planning()) return {};
  MatrixCeiling ceiling;
  ceiling.register_flops = total_rate(ctx, [&](int) {
    constexpr int64_t kRepeats = 10000;
    return rate(kernel.register_flops * static_cast<double>(kRepeats), seconds,
                [&] { kernel.spin_registers(kRepeats); });
  });
  ceiling.cache_flops = total_rate(ctx, [&](int thread) {
    const cpu::MatrixBlock block{.a = a.of(thread),
                                 .a_stride = lines * 4,
                                 .b = b.of(thread),
                                 .b_stride = panel,
                                 .rows = kRows,
                                 .columns = kColumns,
                                 .lines = lines,
                                 .y = y.of(thread),
                                 .y_stride = kColumns,
                                 .scratch = scratch.of(thread)};
    return rate(2.0 * kRows * kColumns * kDepth, seconds, [&] { kernel.multiply(block); });
  });
  return ceiling;
}

/// The plain twin keeps nothing in registers: its one rate is both.
MatrixCeiling plain_ceiling(const Context& ctx, DType compute, double seconds) {
  constexpr int64_t kSize = 64;
  const DType real = compute == DType::kF64 ? DType::kF64 : DType::kF32;
  constexpr int64_t kBytes = kSize * kSize * 8;
  const ArenaScope scope(ctx.scratch());
  const PerThread a(ctx, kBytes);
  const PerThread c(ctx, kBytes);
  if (ctx.planning()) return {};
  const double flops = total_rate(ctx, [&](int thread) {
    const Tensor factor(a.of(thread), real, {kSize, kSize});
    const Tensor result(c.of(thread), real, {kSize, kSize});
    return rate(2.0 * kSize * kSize * kSize, seconds, [&] {
      reference::matmul(Threads(1), compute, factor, factor, result, result, {});
    });
  });
  return {flops, flops};
}

}  // namespace

MatrixCeiling measure_matrix_ceiling(Context& ctx, DType compute, double seconds) {
  if (ctx.isa() == Isa::kReference || compute == DType::kF64) {
    return plain_ceiling(ctx, compute, seconds);
  }
  return fast_ceiling(ctx, cpu::matrix_kernel(ctx.isa(), compute), seconds / 2);
}

}  // namespace athanor::ops
