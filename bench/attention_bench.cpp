// Attention, forward and backward, over head sizes and lengths: useful FLOPs a second (what causality leaves).
#include <benchmark/benchmark.h>

#include <vector>

#include "base/random.h"
#include "ops/attention.h"
#include "ops/matrix.h"

namespace athanor {
namespace {

struct Problem {
  Problem(ops::Heads h, int64_t length, DType dtype, int threads)
      : heads(h), tokens(length), act(dtype), segments{0, length}, ctx(Threads(threads), scratch) {
    {
      Arena tensors("tensors"), planned("scratch");
      ops::Context planning(Threads(threads), planned);
      place(tensors);
      forward(planning);
      backward(planning);
      memory.reserve(tensors.peak());
      scratch.reserve(planned.peak());
    }
    place(memory);
    uint64_t stream = 0;
    for (const Tensor* t : {&q, &k, &v, &dout}) fill(*t, stream++);
  }
  static void fill(const Tensor& t, uint64_t stream) {
    RandomStream random(1, stream);
    for (int64_t i = 0; i < t.numel(); ++i) {
      const auto value = static_cast<float>(2 * random.uniform() - 1);
      if (t.dtype() == DType::kBF16) {
        t.as<bfloat16>()[i] = bfloat16(value);
      } else {
        t.as<float>()[i] = value;
      }
    }
  }
  void place(Arena& arena) {
    const int64_t width = heads.query * heads.size, key_width = heads.key * heads.size;
    q = arena.tensor(act, {tokens, width});
    k = arena.tensor(act, {tokens, key_width});
    v = arena.tensor(act, {tokens, key_width});
    out = arena.tensor(act, {tokens, width});
    dout = arena.tensor(act, {tokens, width});
    lse = arena.tensor(DType::kF32, {tokens, heads.query});
    dq = arena.tensor(DType::kF32, {tokens, width});
    dk = arena.tensor(DType::kF32, {tokens, key_width});
    dv = arena.tensor(DType::kF32, {tokens, key_width});
  }
  void forward(ops::Context& c) {
    const ops::AttentionSegment segment{0, tokens, k.data(), v.data(), tokens};
    ops::attention(c, q, std::span(&segment, 1), shape(), out, lse);
  }
  void backward(ops::Context& c) {
    ops::attention_backward(c, dout, q, k, v, out, lse, segments, shape(), dq, dk, dv);
  }
  ops::AttentionShape shape() const { return {heads, 0, 0.125}; }
  /// Of one product of the forward: a query sees half of the keys.
  double product_flops() const {
    return static_cast<double>(tokens) * static_cast<double>(tokens + 1) *
           static_cast<double>(heads.query * heads.size);
  }

  ops::Heads heads;
  int64_t tokens;
  DType act;
  std::vector<int64_t> segments;
  Arena scratch{"scratch"}, memory{"tensors"};
  ops::Context ctx;
  Tensor q, k, v, out, dout, lse, dq, dk, dv;
};

void run(benchmark::State& state, bool backward) {
  const ops::Heads heads{state.range(0), state.range(1), state.range(2)};
  const DType act = state.range(4) != 0 ? DType::kBF16 : DType::kF32;
  Problem problem(heads, state.range(3), act, static_cast<int>(state.range(5)));
  problem.forward(problem.ctx);
  for (auto _ : state) {
    if (backward) {
      problem.backward(problem.ctx);
    } else {
      problem.forward(problem.ctx);
    }
  }
  const double flops = problem.product_flops() * (backward ? 5 : 2);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void forward(benchmark::State& state) { run(state, false); }
void backward(benchmark::State& state) { run(state, true); }

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"Hq", "Hk", "d", "T", "bf16", "threads"})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
  for (const int64_t bf16 : {1, 0}) {
    for (const int64_t threads : {1, 2}) {
      b->Args({4, 2, 64, 512, bf16, threads});
      b->Args({8, 2, 64, 1024, bf16, threads});
      b->Args({8, 2, 128, 4096, bf16, threads});
    }
  }
}
BENCHMARK(forward)->Apply(shapes);
BENCHMARK(backward)->Apply(shapes);

}  // namespace
}  // namespace athanor

BENCHMARK_MAIN();
