// Matrix products as a share of the ceiling that the same run measures. Threads follow OMP_NUM_THREADS, the kernels
// ATHANOR_ISA; shapes are those of `demo` and the cube that everybody quotes.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "ops/matrix.h"

namespace athanor::ops {
namespace {

/// Everything that a product needs, with zeros as numbers (their time is that of any others).
struct Bench {
  Arena memory{"bench"};
  Arena scratch{"scratch"};

  Bench() { memory.reserve(size_t{1} << 30); }
  template <class Op>
  void run(benchmark::State& state, DType compute, double flops, const Op& op) {
    {
      Context planning{Threads(), scratch};
      op(planning);
    }
    scratch.reserve(scratch.peak());
    Context ctx{Threads(), scratch};
    op(ctx);
    for (auto _ : state) op(ctx);
    // Taken next to the product itself: the clock of a shared machine changes from minute to minute.
    Arena spare("spare");
    spare.reserve(size_t{64} << 20);
    Context other{Threads(), spare};
    const double ceiling = measure_matrix_ceiling(other, compute, 0.2).register_flops;
    using benchmark::Counter;
    state.counters["flops"] = Counter(flops, Counter::kIsIterationInvariantRate, Counter::kIs1000);
    state.counters["of_ceiling"] = Counter(flops / ceiling, Counter::kIsIterationInvariantRate);
  }
};

void linear_bench(benchmark::State& state, DType act) {
  const int64_t t = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  Bench bench;
  const Tensor x = bench.memory.tensor(act, {t, k});
  const PackedMatrix w = PackedMatrix::allocate(bench.memory, act, n, k);
  const Tensor y = bench.memory.tensor(act, {t, n});
  bench.run(state, act, 2.0 * static_cast<double>(t * n * k),
            [&](Context& ctx) { linear(ctx, x, w, y); });
}

void outer_bench(benchmark::State& state, DType act) {
  const int64_t t = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  Bench bench;
  const Tensor x = bench.memory.tensor(act, {t, k});
  const Tensor dy = bench.memory.tensor(act, {t, n});
  const Tensor dw = bench.memory.tensor(DType::kF32, {n, k});
  bench.run(state, act, 2.0 * static_cast<double>(t * n * k),
            [&](Context& ctx) { accumulate_outer(ctx, act, dy, x, dw); });
}

/// Eight experts, the first with half of all tokens and the last with none.
void grouped_bench(benchmark::State& state, DType act) {
  constexpr int64_t kGroups = 8;
  const int64_t t = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  Bench bench;
  std::array<int64_t, kGroups + 1> offsets{0};
  for (int64_t g = 1; g < kGroups; ++g) offsets[g] = t / 2 + (g - 1) * (t / 2) / (kGroups - 2);
  offsets[kGroups] = offsets[kGroups - 1];
  const Tensor x = bench.memory.tensor(act, {t, k});
  const Tensor y = bench.memory.tensor(act, {t, n});
  std::vector<PackedMatrix> w;
  for (int64_t g = 0; g < kGroups; ++g) {
    w.push_back(PackedMatrix::allocate(bench.memory, act, n, k));
  }
  bench.run(state, act, 2.0 * static_cast<double>(t * n * k),
            [&](Context& ctx) { grouped_linear(ctx, x, offsets, w, y); });
}

void pack_bench(benchmark::State& state, DType act) {
  const int64_t n = state.range(0);
  const int64_t k = state.range(1);
  Bench bench;
  const Tensor w = bench.memory.tensor(DType::kF32, {n, k});
  PackedMatrix forward = PackedMatrix::allocate(bench.memory, act, n, k);
  PackedMatrix backward = PackedMatrix::allocate(bench.memory, act, k, n);
  bench.run(state, act, 0, [&](Context& ctx) {
    pack(ctx, w, forward);
    pack_transposed(ctx, w, backward);
  });
}

void muon_bench(benchmark::State& state, DType compute) {
  const int64_t rows = state.range(0);
  const int64_t cols = state.range(1);
  Bench bench;
  const Tensor g = bench.memory.tensor(DType::kF32, {rows, cols});
  const double m = static_cast<double>(std::min(rows, cols));
  const double n = static_cast<double>(std::max(rows, cols));
  bench.run(state, compute, 5 * (m * m * n + m * m * m + 2 * m * m * n),
            [&](Context& ctx) { newton_schulz(ctx, compute, g, g); });
}

void demo_shapes(benchmark::internal::Benchmark* b) {
  for (const auto& [n, k] :
       {std::pair<int64_t, int64_t>{768, 256}, {256, 256}, {512, 256}, {256, 512}, {8192, 256}}) {
    b->Args({4096, n, k});
  }
  b->Args({2048, 2048, 2048})->UseRealTime()->Unit(benchmark::kMillisecond);
}

void decode_shapes(benchmark::internal::Benchmark* b) {
  for (const int64_t t : {1, 4, 8}) b->Args({t, 8192, 2048});
  b->UseRealTime();
}

BENCHMARK_CAPTURE(linear_bench, bf16, DType::kBF16)->Apply(demo_shapes);
BENCHMARK_CAPTURE(outer_bench, bf16, DType::kBF16)->Apply(demo_shapes);
BENCHMARK_CAPTURE(linear_bench, f32, DType::kF32)->Apply(demo_shapes);
BENCHMARK_CAPTURE(outer_bench, f32, DType::kF32)->Apply(demo_shapes);
BENCHMARK_CAPTURE(linear_bench, bf16_decode, DType::kBF16)->Apply(decode_shapes);
BENCHMARK_CAPTURE(grouped_bench, bf16, DType::kBF16)
    ->Args({4096, 512, 256})
    ->Args({4096, 256, 256})
    ->UseRealTime();
BENCHMARK_CAPTURE(pack_bench, bf16, DType::kBF16)
    ->Args({8192, 256})
    ->Args({2048, 2048})
    ->UseRealTime();
BENCHMARK_CAPTURE(muon_bench, bf16, DType::kBF16)
    ->Args({768, 256})
    ->Args({1024, 1024})
    ->UseRealTime();
BENCHMARK_CAPTURE(muon_bench, f32, DType::kF32)->Args({768, 256})->UseRealTime();

}  // namespace
}  // namespace athanor::ops

BENCHMARK_MAIN();
