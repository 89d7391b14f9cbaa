#include "advisor/matrix_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "advisor/ceilings.h"
#include "advisor/peers.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "ops/matrix.h"

namespace athanor::advisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kDTypes = {DType::kBF16, DType::kF32};
constexpr double kCeilingSeconds = 0.1;  // a round measures each ceiling for so long
// A peer's threads keep spinning for a while after its product; ours must not run beside them.
constexpr std::chrono::milliseconds kPeerRest(20);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// y = x · wᵀ with all three square and w packed.
struct Product {
  Tensor x, y;
  ops::PackedMatrix w;

  Product(ops::Context& ctx, Arena& arena, DType dtype, int64_t size) {
    x = arena.tensor(dtype, {size, size});
    y = arena.tensor(DType::kF32, {size, size});
    w = ops::PackedMatrix::allocate(arena, dtype, size, size);
    if (!ctx.planning()) fill(dtype);
    ops::pack(ctx, x, w);
  }
  void run(ops::Context& ctx) const { ops::linear(ctx, x, w, y); }

 private:
  /// Ordinary numbers: zeros could be multiplied faster, subnormals slower.
  void fill(DType dtype) const {
    RandomStream random(1, stream_of("bench gemm"));
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto value = static_cast<float>(random.uniform() - 0.5);
      if (dtype == DType::kBF16) {
        x.as<bfloat16>()[i] = bfloat16(value);
      } else {
        x.as<float>()[i] = value;
      }
    }
  }
};

struct Samples {
  std::vector<double> in_registers, in_cache, product, peer, over_peer;
};

}  // namespace

MatrixRates measure_matrix_rates(int64_t size, double seconds, bool peers) {
  if (size < 1 || size > 32768) {
    throw usage_error(fmt::format("--size {} must lie between 1 and 32768", size));
  }
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw usage_error(fmt::format("--seconds {} must be above 0", seconds));
  }
  std::optional<PeerProcess> peer;
  if (peers) peer.emplace();
  const Threads threads;
  Arena planned("operands"), planned_scratch("scratch");
  ops::Context planning(threads, planned_scratch);
  for (const DType dtype : kDTypes) {
    Product(planning, planned, dtype, size).run(planning);
    ops::measure_matrix_ceiling(planning, dtype, kCeilingSeconds);
  }
  require_memory("the product", planned.peak() + planned_scratch.peak());
  Arena arena("operands"), scratch("scratch");
  arena.reserve(planned.peak());
  scratch.reserve(planned_scratch.peak());
  ops::Context ctx(threads, scratch);
  std::vector<Product> products;
  for (const DType dtype : kDTypes) products.emplace_back(ctx, arena, dtype, size);
  for (const Product& product : products) product.run(ctx);  // first touch of every page

  MatrixRates result{{}, size, 0, threads.count(), ctx.isa(), peer ? peer->name() : ""};
  std::array<Samples, kDTypes.size()> samples;
  const double flops =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  log::Progress progress("bench gemm", "ms", static_cast<int64_t>(seconds * 1000));
  const Clock::time_point start = Clock::now();
  do {
    for (size_t i = 0; i < kDTypes.size(); ++i) {
      const ops::MatrixCeiling ceiling =
          ops::measure_matrix_ceiling(ctx, kDTypes[i], kCeilingSeconds);
      samples[i].in_registers.push_back(ceiling.register_flops);
      samples[i].in_cache.push_back(ceiling.cache_flops);
      const Clock::time_point begin = Clock::now();
      products[i].run(ctx);
      samples[i].product.push_back(flops / seconds_since(begin));
      if (!peer) continue;
      samples[i].peer.push_back(flops /
                                peer->product_seconds({kDTypes[i], false, size, size, size}));
      samples[i].over_peer.push_back(samples[i].product.back() / samples[i].peer.back());
      std::this_thread::sleep_for(kPeerRest);
    }
    ++result.rounds;
    progress.update(static_cast<int64_t>(seconds_since(start) * 1000));
  } while (seconds_since(start) < seconds);
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    result.rates.push_back({kDTypes[i], median(samples[i].in_registers),
                            median(samples[i].in_cache), median(samples[i].product)});
    if (!peer) continue;
    result.rates.back().peer_flops = median(samples[i].peer);
    result.rates.back().over_peer = median(samples[i].over_peer);
  }
  return result;
}

}  // namespace athanor::advisor
