// The vocabulary product with cross-entropy, forward and backward, beside the three plain products of the same shapes.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/random.h"
#include "ops/loss.h"

namespace athanor {
namespace {

void fill(const Tensor& t, float size, uint64_t stream) {
  RandomStream random(1, stream);
  for (int64_t i = 0; i < t.numel(); ++i) {
    const auto value = static_cast<float>(2 * random.uniform() - 1);
    t.as<bfloat16>()[i] = bfloat16(value * size);
  }
}

struct Head {
  Head(int64_t tokens, int64_t width, int64_t vocabulary, int threads)
      : ctx(Threads(threads), scratch) {
    Arena planned_memory("tensors"), planned("scratch");
    ops::Context planning(Threads(threads), planned);
    place(planned_memory, tokens, width, vocabulary);
    fused(planning);
    plain(planning);
    memory.reserve(planned_memory.peak());
    scratch.reserve(planned.peak());
    place(memory, tokens, width, vocabulary);
    fill(h, 1.0F, 1);
    fill(table, 0.1F, 2);
    ops::pack(ctx, table, forward);
    ops::pack_transposed(ctx, table, transposed);
    for (int64_t t = 0; t < tokens; ++t) {
      targets.as<int32_t>()[t] = static_cast<int32_t>(t * 7919 % vocabulary);
    }
  }
  void place(Arena& arena, int64_t tokens, int64_t width, int64_t vocabulary) {
    h = arena.tensor(DType::kBF16, {tokens, width});
    table = arena.tensor(DType::kBF16, {vocabulary, width});
    logits = arena.tensor(DType::kBF16, {tokens, vocabulary});
    targets = arena.tensor(DType::kI32, {tokens});
    loss = arena.tensor(DType::kF32, {tokens});
    dh = arena.tensor(DType::kF32, {tokens, width});
    dtable = arena.tensor(DType::kF32, {vocabulary, width});
    forward = ops::PackedMatrix::allocate(arena, DType::kBF16, vocabulary, width);
    transposed = ops::PackedMatrix::allocate(arena, DType::kBF16, width, vocabulary);
  }
  void fused(ops::Context& c) {
    ops::vocabulary_loss(c, h, {&forward, &transposed}, targets, 1e-3, loss, dh, dtable);
  }
  void plain(ops::Context& c) {
    ops::linear(c, h, forward, logits);
    ops::linear(c, logits, transposed, dh);
    ops::accumulate_outer(c, DType::kBF16, logits, h, dtable);
  }

  Arena scratch{"scratch"}, memory{"tensors"};
  ops::Context ctx;
  Tensor h, table, logits, targets, loss, dh, dtable;
  ops::PackedMatrix forward, transposed;
};

void run(benchmark::State& state, bool fused) {
  const int64_t tokens = state.range(0), width = state.range(1), vocabulary = state.range(2);
  Head head(tokens, width, vocabulary, static_cast<int>(state.range(3)));
  head.fused(head.ctx);  // touches the memory
  for (auto _ : state) {
    if (fused) {
      head.fused(head.ctx);
    } else {
      head.plain(head.ctx);
    }
  }
  const double flops = 6.0 * static_cast<double>(tokens * width) * static_cast<double>(vocabulary);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void fused(benchmark::State& state) { run(state, true); }
void plain_products(benchmark::State& state) { run(state, false); }

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"T", "D", "V", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
  for (const int64_t threads : {1, 2}) {
    b->Args({512, 256, 8192, threads});
    b->Args({1024, 512, 16384, threads});
    b->Args({1024, 2048, 32768, threads});
  }
}
BENCHMARK(fused)->Apply(shapes);
BENCHMARK(plain_products)->Apply(shapes);

}  // namespace
}  // namespace athanor

BENCHMARK_MAIN();
