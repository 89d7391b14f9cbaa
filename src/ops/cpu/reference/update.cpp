#include "ops/cpu/reference/update.h"

#include <cmath>

#include "base/math.h"
#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {
namespace {

Elements flat(const Tensor& t) { return Elements(t.reshaped({t.numel()})); }

}  // namespace

void adamw(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
           const AdamWOptions& options) {
  const Elements parameter = flat(p), gradient = flat(g), mean = flat(m), square = flat(v);
  const double step = static_cast<double>(options.step);
  const double mean_correction = 1.0 - math::pow(options.beta1, step);
  const double square_correction = 1.0 - math::pow(options.beta2, step);
  for (int64_t i = 0; i < p.numel(); ++i) {
    const double grad = gradient[i] * options.gradient_scale;
    const double m1 = options.beta1 * mean[i] + (1.0 - options.beta1) * grad;
    const double v1 = options.beta2 * square[i] + (1.0 - options.beta2) * grad * grad;
    mean.set(0, i, m1);
    square.set(0, i, v1);
    const double decayed = parameter[i] * (1.0 - options.learning_rate * options.weight_decay);
    const double update =
        m1 / mean_correction / (std::sqrt(v1 / square_correction) + options.epsilon);
    parameter.set(0, i, decayed - options.learning_rate * update);
  }
}

void muon_momentum(const Tensor& g, double mu, double gradient_scale, const Tensor& momentum,
                   const Tensor& nesterov) {
  const Elements gradient = flat(g), mean = flat(momentum), ahead = flat(nesterov);
  for (int64_t i = 0; i < g.numel(); ++i) {
    const double grad = (1.0 - mu) * gradient_scale * gradient[i];
    const double m1 = mu * mean[i] + grad;
    mean.set(0, i, m1);
    ahead.set(0, i, grad + mu * m1);
  }
}

void muon_apply(const Tensor& p, const Tensor& o, double decay, double step) {
  const Elements parameter = flat(p), direction = flat(o);
  for (int64_t i = 0; i < p.numel(); ++i) {
    parameter.set(0, i, parameter[i] * decay - step * direction[i]);
  }
}

}  // namespace athanor::ops::reference
