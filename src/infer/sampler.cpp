#include "infer/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"

namespace athanor::infer {
namespace {

/// The index of the largest logit, the lowest of equals.
int32_t greatest(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      throw numbers_error(fmt::format(
          "the model's logits are not finite (token {}); its weights are damaged or diverged", i));
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == -INFINITY) throw numbers_error("no token has a finite logit");
  return static_cast<int32_t>(best);
}

}  // namespace

void SamplingOptions::validate() const {
  if (!std::isfinite(temperature) || temperature < 0) {
    throw usage_error(fmt::format("temperature {} must be 0 (greedy) or above", temperature));
  }
  if (!(top_p > 0 && top_p <= 1)) {
    throw usage_error(
        fmt::format("top-p {} must be more than 0 and at most 1, which keeps every token", top_p));
  }
  if (top_k < 0) {
    throw usage_error(fmt::format("top-k {} must be 0 (every token) or above", top_k));
  }
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) { options_.validate(); }

std::span<const int32_t> Sampler::candidates(std::span<const float> logits) {
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto k = static_cast<uint64_t>(options_.top_k);
  const size_t kept =
      k == 0 ? logits.size() : static_cast<size_t>(std::min<uint64_t>(k, logits.size()));
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  if (kept < order_.size()) {
    const auto cut = order_.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(order_.begin(), cut, order_.end(), likelier);
  } else if (options_.top_p < 1) {
    std::sort(order_.begin(), order_.end(), likelier);
  }
  return {order_.data(), kept};
}

int32_t Sampler::sample(std::span<const float> logits) {
  require(!logits.empty(), "sampling from no logits");
  const int32_t best = greatest(logits);
  const double u = RandomStream(options_.seed, stream_of("sampling"), draws_++).uniform();
  if (options_.temperature == 0) return best;

  const std::span<const int32_t> tokens = candidates(logits);
  const double top = logits[static_cast<size_t>(best)];
  weights_.clear();
  double sum = 0;
  for (const int32_t token : tokens) {
    const double logit = logits[static_cast<size_t>(token)];
    weights_.push_back(logit == -INFINITY ? 0 : math::exp((logit - top) / options_.temperature));
    sum += weights_.back();
  }
  size_t kept = tokens.size();
  if (options_.top_p < 1) {
    const double enough = options_.top_p * sum;
    sum = 0;
    for (kept = 0; kept < tokens.size() && (kept == 0 || sum < enough); ++kept) {
      sum += weights_[kept];
    }
  }
  // The token in whose stretch of [0, sum) the random point falls; by rounding the point may lie
  // past the last stretch.
  double passed = 0;
  int32_t drawn = best;
  for (size_t i = 0; i < kept; ++i) {
    if (weights_[i] == 0) continue;
    drawn = tokens[i];
    passed += weights_[i];
    if (u * sum < passed) break;
  }
  return drawn;
}

}  // namespace athanor::infer
