#include "ops/cpu/reference/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/reference/special.h"

namespace athanor::ops::reference {

void gelu(const Tensor& x, const Tensor& y) {
  const Elements in(x), out(y);
  for (int64_t t = 0; t < x.rows(); ++t) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      out.set(t, c, in.get(t, c) * normal_cdf(in.get(t, c)));
    }
  }
}

void gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const Elements dout(dy), in(x), din(dx);
  for (int64_t t = 0; t < x.rows(); ++t) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      const double v = in.get(t, c);
      din.set(t, c, dout.get(t, c) * (normal_cdf(v) + v * normal_pdf(v)));
    }
  }
}

void depth_average(const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state) {
  const Elements in(r), factor(gamma), before(previous), out(state);
  for (int64_t t = 0; t < r.rows(); ++t) {
    for (int64_t c = 0; c < r.cols(); ++c) {
      out.set(t, c, in.get(t, c) + factor[c] * before.get(t, c));
    }
  }
}

void depth_average_backward(const Tensor& dstate, const Tensor& gamma, const Tensor& previous,
                            const Tensor& dprevious, const Tensor& dgamma) {
  const Elements d(dstate), factor(gamma), before(previous), dbefore(dprevious), dfactor(dgamma);
  for (int64_t c = 0; c < dstate.cols(); ++c) {
    double sum = 0;
    for (int64_t t = 0; t < dstate.rows(); ++t) {
      sum += d.get(t, c) * before.get(t, c);
      dbefore.set(t, c, factor[c] * d.get(t, c));
    }
    dfactor.add(0, c, sum);
  }
}

void route(const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight) {
  const Elements in(logits), offset(bias), p(probability), applied(weight);
  const int64_t classes = logits.cols();
  int32_t* choice = expert.as<int32_t>();
  for (int64_t t = 0; t < logits.rows(); ++t) {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t e = 0; e < classes; ++e) largest = std::max(largest, in.get(t, e));
    double sum = 0;
    // Where the largest is infinite its own entries share the probability: the limit of the
    // softmax.
    const auto mass = [&](int64_t e) {
      if (std::isinf(largest) && in.get(t, e) == largest) return 1.0;
      return math::exp(in.get(t, e) - largest);
    };
    for (int64_t e = 0; e < classes; ++e) sum += mass(e);
    for (int64_t e = 0; e < classes; ++e) p.set(t, e, mass(e) / sum);
    int64_t best = 0;
    for (int64_t e = 1; e < classes; ++e) {
      if (p.get(t, e) + offset[e] > p.get(t, best) + offset[best]) best = e;
    }
    choice[t] = static_cast<int32_t>(best);
    applied.set(0, t, best == classes - 1 ? 0.0 : p.get(t, best));
  }
}

void route_backward(const Tensor& dweight, const Tensor& probability, const Tensor& expert,
                    const Tensor& dlogits) {
  const Elements d(dweight), p(probability), dlogit(dlogits);
  const int64_t classes = probability.cols();
  const int32_t* choice = expert.as<int32_t>();
  for (int64_t t = 0; t < probability.rows(); ++t) {
    const int64_t chosen = choice[t];
    const bool skipped = chosen == classes - 1;
    for (int64_t e = 0; e < classes; ++e) {
      const double one = e == chosen ? 1.0 : 0.0;
      dlogit.set(t, e, skipped ? 0.0 : d[t] * p.get(t, chosen) * (one - p.get(t, e)));
    }
  }
}

void gather_rows(const Tensor& from, const int32_t* order, int64_t count, const Tensor& to) {
  const Elements a(from), b(to);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < to.cols(); ++c) b.set(i, c, a.get(order[i], c));
  }
}

void scatter_add_rows(const Tensor& from, const int32_t* order, int64_t count, const Tensor& to) {
  const Elements a(from), b(to);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < to.cols(); ++c) b.add(order[i], c, a.get(i, c));
  }
}

void combine(const Tensor& y, const int32_t* place, const Tensor& weight, const Tensor& out) {
  const Elements in(y), w(weight), result(out);
  for (int64_t t = 0; t < out.rows(); ++t) {
    for (int64_t c = 0; c < out.cols(); ++c) {
      result.set(t, c, place[t] < 0 ? 0.0 : w[t] * in.get(place[t], c));
    }
  }
}

void combine_backward(const Tensor& dout, const Tensor& y, const int32_t* place,
                      const Tensor& weight, const Tensor& dy, const Tensor& dweight) {
  const Elements d(dout), in(y), w(weight), din(dy), dw(dweight);
  for (int64_t t = 0; t < dout.rows(); ++t) {
    double dot = 0;
    for (int64_t c = 0; c < dout.cols() && place[t] >= 0; ++c) {
      din.set(place[t], c, w[t] * d.get(t, c));
      dot += d.get(t, c) * in.get(place[t], c);
    }
    dw.set(0, t, dot);
  }
}

void silu_product(const Tensor& gate_up, int64_t count, const Tensor& h) {
  const Elements in(gate_up), out(h);
  const int64_t width = h.cols();
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      out.set(t, c, silu(in.get(t, c)) * in.get(t, width + c));
    }
  }
}

void silu_product_backward(const Tensor& dh, const Tensor& gate_up, int64_t count,
                           const Tensor& dgate_up) {
  const Elements d(dh), in(gate_up), din(dgate_up);
  const int64_t width = dh.cols();
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      const double gate = in.get(t, c), up = in.get(t, width + c), g = d.get(t, c);
      din.set(t, c, g * up * silu_derivative(gate));
      din.set(t, width + c, g * silu(gate));
    }
  }
}

}  // namespace athanor::ops::reference
