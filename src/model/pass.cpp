#include "model/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "ops/elementwise.h"

namespace athanor::model {
namespace {

template <class Real>
void margins(const Tensor& probability, const Tensor& bias, const Tensor& margin) {
  const Real* b = bias.as<Real>();
  for (int64_t t = 0; t < probability.rows(); ++t) {
    const Real* p = probability.row<Real>(t);
    Real best = p[0] + b[0];
    Real second = -std::numeric_limits<Real>::infinity();
    for (int64_t e = 1; e < probability.cols(); ++e) {
      const Real x = p[e] + b[e];
      second = std::max(second, std::min(best, x));
      best = std::max(best, x);
    }
    margin.as<Real>()[t] = best - second;
  }
}

}  // namespace

void observe(const Pass& pass, int64_t layer, std::string_view name, const Tensor& value) {
  if (pass.observer == nullptr || pass.planning()) return;
  (*pass.observer)(layer < 0 ? std::string(name) : fmt::format("layers.{}.{}", layer, name), value);
}

void observe_heads(const Pass& pass, int64_t layer, std::string_view name, const Tensor& value,
                   int64_t begin, int64_t heads, int64_t size) {
  if (pass.observer == nullptr) return;
  ArenaScope scope(pass.arena);
  const Tensor copy = pass.arena.tensor(value.dtype(), {value.rows(), heads, size});
  ops::convert(pass.ctx, value.columns(begin, heads * size),
               copy.reshaped({value.rows(), heads * size}));
  observe(pass, layer, name, copy);
}

void observe_margin(const Pass& pass, int64_t layer, const Tensor& probability,
                    const Tensor& bias) {
  if (pass.observer == nullptr) return;
  ArenaScope scope(pass.arena);
  const Tensor margin = pass.arena.tensor(probability.dtype(), {probability.rows()});
  if (pass.planning()) return;
  if (margin.dtype() == DType::kF64) {
    margins<double>(probability, bias, margin);
  } else {
    margins<float>(probability, bias, margin);
  }
  observe(pass, layer, "router_margin", margin);
}

}  // namespace athanor::model
