#include "ops/cpu/reference/loss.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {

void cross_entropy(const Tensor& logits, const int32_t* targets, double scale, const Tensor& loss,
                   const Tensor& dlogits) {
  const Elements in(logits), out(loss), d(dlogits);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const int64_t target = targets[t];
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < logits.cols(); ++c) largest = std::max(largest, in.get(t, c));
    double sum = 0;
    for (int64_t c = 0; c < logits.cols(); ++c) sum += math::exp(in.get(t, c) - largest);
    const double log_sum = largest + math::log(sum);
    out.set(0, t, target < 0 ? 0.0 : log_sum - in.get(t, target));
    for (int64_t c = 0; c < logits.cols() && !dlogits.empty(); ++c) {
      const double p = math::exp(in.get(t, c) - log_sum);
      d.set(t, c, target < 0 ? 0.0 : scale * (p - (c == target ? 1.0 : 0.0)));
    }
  }
}

}  // namespace athanor::ops::reference
