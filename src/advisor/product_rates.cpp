#include "advisor/product_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "advisor/ceilings.h"
#include "advisor/peers.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "ops/matrix.h"
#include "train/phases.h"
#include "train/prepare.h"
#include "train/startup.h"

namespace athanor::advisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 3;                            // of a product in a row; the fastest counts
constexpr double kCeilingSeconds = 0.02;            // before each product
constexpr std::chrono::milliseconds kPeerRest(20);  // a peer's threads spin on for a while

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double flops_of(const ProductShape& s) {
  return 2.0 * static_cast<double>(s.t) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

/// Rows of the vocabulary's product that the loss takes at once: 1024, or what 256 MiB of bf16 hold.
int64_t vocabulary_rows(int64_t tokens, int64_t vocabulary) {
  return std::min(tokens, std::clamp<int64_t>((int64_t{1} << 27) / vocabulary, 128, 1024));
}

/// Ordinary numbers: zeros could be multiplied faster, subnormals slower.
void fill(const Tensor& t) {
  constexpr int64_t kPeriod = 65536;
  RandomStream random(1, stream_of("bench gemm"));
  auto* values = t.as<bfloat16>();
  const int64_t drawn = std::min(kPeriod, t.numel());
  for (int64_t i = 0; i < drawn; ++i) {
    values[i] = bfloat16(static_cast<float>(random.uniform() - 0.5));
  }
  for (int64_t i = drawn; i < t.numel(); ++i) values[i] = values[i - kPeriod];
}

/// Lays a product's operands out in `arena`, prepares it, and gives it to `use` as a function that
/// computes it once.
template <class Use>
void with_product(ops::Context& ctx, Arena& arena, const ProductShape& shape, const Use& use) {
  const ArenaScope scope(arena);
  const bool forward = shape.kind == ProductKind::kForward;
  const int64_t from = forward ? shape.k : shape.n, to = forward ? shape.n : shape.k;
  const Tensor left = arena.tensor(DType::kBF16, {shape.t, from});
  if (!ctx.planning()) fill(left);
  if (shape.kind == ProductKind::kWeightGradient) {
    const Tensor x = arena.tensor(DType::kBF16, {shape.t, shape.k});
    const Tensor dw = arena.tensor(DType::kF32, {shape.n, shape.k});
    if (!ctx.planning()) {
      fill(x);
      std::fill_n(dw.as<float>(), dw.numel(), 0.0F);
    }
    use([&] { ops::accumulate_outer(ctx, DType::kBF16, left, x, dw); });
    return;
  }
  const Tensor result = arena.tensor(DType::kF32, {shape.t, to});
  ops::PackedMatrix packed = ops::PackedMatrix::allocate(arena, DType::kBF16, to, from);
  const Tensor w = arena.tensor(DType::kBF16, {to, from});
  if (!ctx.planning()) fill(w);
  ops::pack(ctx, w, packed);
  use([&] { ops::linear(ctx, left, packed, result); });
}

PeerProduct for_peer(const ProductShape& s) {
  if (s.kind == ProductKind::kInputGradient) return {DType::kBF16, false, s.t, s.k, s.n};
  return {DType::kBF16, s.kind == ProductKind::kWeightGradient, s.t, s.n, s.k};
}

struct Samples {
  std::vector<double> flops, share, peer, over_peer;
};

}  // namespace

std::string_view name_of(ProductKind kind) {
  switch (kind) {
    case ProductKind::kForward:
      return "forward";
    case ProductKind::kInputGradient:
      return "input gradient";
    case ProductKind::kWeightGradient:
      return "weight gradient";
  }
  return "?";
}

std::vector<ProductShape> product_shapes(const std::vector<std::string>& configs) {
  std::vector<ProductShape> shapes;
  for (const std::string& path : configs) {
    train::Config config = train::read_config(path, {});
    train::resolve_vocab(config, train::expected_vocab(config));
    const model::ModelConfig m = train::model_config(config);
    const int64_t tokens = config.batch.micro_batch * config.phases.front().sequence;
    const int64_t of_an_expert = std::max<int64_t>(1, tokens / m.experts);
    const std::string name = fs::path(path).stem().string();
    const auto add = [&](const char* layer, int64_t t, int64_t n, int64_t k) {
      for (const auto kind :
           {ProductKind::kForward, ProductKind::kInputGradient, ProductKind::kWeightGradient}) {
        const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const ProductShape& s) {
          return s.kind == kind && s.t == t && s.n == n && s.k == k;
        });
        if (!known) shapes.push_back({name, layer, kind, t, n, k});
      }
    };
    add("attention in", tokens, m.heads.channels() + 2 * m.value_half(), m.hidden);
    add("attention out", tokens, m.hidden, m.heads.query * m.heads.size);
    add("experts gate, up", of_an_expert, 2 * m.expert_inner, m.hidden);
    add("experts down", of_an_expert, m.hidden, m.expert_inner);
    add("vocabulary", vocabulary_rows(tokens, m.vocab), m.vocab, m.hidden);
  }
  return shapes;
}

ProductRates measure_product_rates(const std::vector<std::string>& configs, double seconds,
                                   bool peers) {
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw usage_error(fmt::format("--seconds {} must be above 0", seconds));
  }
  const std::vector<ProductShape> shapes = product_shapes(configs);
  std::optional<PeerProcess> peer;
  if (peers) peer.emplace();
  const Threads threads;
  Arena planned("operands"), planned_scratch("scratch");
  ops::Context planning(threads, planned_scratch);
  for (const ProductShape& shape : shapes) {
    with_product(planning, planned, shape, [](const auto& run) { run(); });
  }
  ops::measure_matrix_ceiling(planning, DType::kBF16, kCeilingSeconds);
  require_memory("the products", planned.peak() + planned_scratch.peak());
  Arena arena("operands"), scratch("scratch");
  arena.reserve(planned.peak());
  scratch.reserve(planned_scratch.peak());
  ops::Context ctx(threads, scratch);

  ProductRates result{
      .threads = threads.count(), .isa = ctx.isa(), .peer = peer ? peer->name() : ""};
  std::vector<Samples> samples(shapes.size());
  log::Progress progress("bench gemm", "products", 0);
  int64_t done = 0;
  const Clock::time_point start = Clock::now();
  do {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const double flops = flops_of(shapes[i]);
      const double ceiling =
          ops::measure_matrix_ceiling(ctx, DType::kBF16, kCeilingSeconds).register_flops;
      double ours = std::numeric_limits<double>::infinity();
      with_product(ctx, arena, shapes[i], [&](const auto& run) {
        run();  // first touch, and caches as the peer's first run leaves them
        for (int n = 0; n < kRuns; ++n) {
          const Clock::time_point begin = Clock::now();
          run();
          ours = std::min(ours, seconds_since(begin));
        }
      });
      samples[i].flops.push_back(flops / ours);
      samples[i].share.push_back(flops / ours / ceiling);
      if (peer) {
        double theirs = std::numeric_limits<double>::infinity();
        for (int n = 0; n < kRuns; ++n) {
          theirs = std::min(theirs, peer->product_seconds(for_peer(shapes[i])));
        }
        samples[i].peer.push_back(flops / theirs);
        samples[i].over_peer.push_back(theirs / ours);
        std::this_thread::sleep_for(kPeerRest);
      }
      progress.update(++done);
    }
    ++result.rounds;
  } while (seconds_since(start) < seconds);

  double logarithms = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    ProductRate rate{
        .shape = shapes[i], .flops = median(samples[i].flops), .share = median(samples[i].share)};
    if (peer) {
      rate.peer_flops = median(samples[i].peer);
      rate.over_peer = median(samples[i].over_peer);
      logarithms += std::log(rate.over_peer);
      result.least = i == 0 ? rate.over_peer : std::min(result.least, rate.over_peer);
    }
    result.products.push_back(std::move(rate));
  }
  if (peer) result.geometric_mean = std::exp(logarithms / static_cast<double>(shapes.size()));
  return result;
}

}  // namespace athanor::advisor
