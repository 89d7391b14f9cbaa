#include "ops/cpu/reference/norm.h"

#include <cmath>

#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {

void rms_norm(const Tensor& x, const Tensor& w, double eps, const Tensor& y,
              const Tensor& inv_rms) {
  const Elements in(x), weight(w), out(y), inverse(inv_rms);
  const int64_t width = x.cols();
  for (int64_t t = 0; t < x.rows(); ++t) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += in.get(t, c) * in.get(t, c);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t c = 0; c < width; ++c) out.set(t, c, weight[c] * (in.get(t, c) * scale));
    inverse.set(0, t, scale);
  }
}

// With n = x·s, s = 1/√(mean(x²) + ε): dn = w ⊙ dy, dx = s·(dn − n · mean(dn ⊙ n)), dw = Σ dy ⊙ n.
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& inv_rms,
                       const Tensor& dx, const Tensor& dw) {
  const Elements dout(dy), in(x), weight(w), inverse(inv_rms), din(dx), dweight(dw);
  const int64_t width = x.cols();
  for (int64_t t = 0; t < x.rows(); ++t) {
    const double scale = inverse[t];
    double dot = 0;
    for (int64_t c = 0; c < width; ++c) dot += weight[c] * dout.get(t, c) * in.get(t, c) * scale;
    const double mean = dot / static_cast<double>(width);
    for (int64_t c = 0; c < width; ++c) {
      din.add(t, c, scale * (weight[c] * dout.get(t, c) - in.get(t, c) * scale * mean));
    }
  }
  for (int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < x.rows(); ++t) sum += dout.get(t, c) * in.get(t, c) * inverse[t];
    dweight.add(0, c, sum);
  }
}

void residual_affine(const Tensor& m, const Tensor& r, const ResidualScale& scale,
                     const Tensor& out) {
  const Elements hidden(m), residual(r), result(out);
  const Elements hidden_scale(scale.hidden_scale), hidden_bias(scale.hidden_bias);
  const Elements residual_scale(scale.residual_scale), residual_bias(scale.residual_bias);
  for (int64_t t = 0; t < out.rows(); ++t) {
    for (int64_t c = 0; c < out.cols(); ++c) {
      double value = (hidden.get(t, c) + hidden_bias[c]) * hidden_scale[c];
      if (!r.empty()) value += (residual.get(t, c) + residual_bias[c]) * residual_scale[c];
      result.set(t, c, value);
    }
  }
}

void residual_affine_backward(const Tensor& dout, const Tensor& m, const Tensor& r,
                              const ResidualScale& scale, const Tensor& dm, const Tensor& dr,
                              const ResidualScale& dscale) {
  const Elements d(dout), hidden(m), residual(r), dhidden(dm), dresidual(dr);
  const Elements hidden_scale(scale.hidden_scale), hidden_bias(scale.hidden_bias);
  const Elements residual_scale(scale.residual_scale), residual_bias(scale.residual_bias);
  for (int64_t c = 0; c < dout.cols(); ++c) {
    double sum = 0, hidden_sum = 0, residual_sum = 0;
    for (int64_t t = 0; t < dout.rows(); ++t) {
      sum += d.get(t, c);
      hidden_sum += d.get(t, c) * (hidden.get(t, c) + hidden_bias[c]);
      if (!r.empty()) residual_sum += d.get(t, c) * (residual.get(t, c) + residual_bias[c]);
    }
    Elements(dscale.hidden_scale).add(0, c, hidden_sum);
    Elements(dscale.hidden_bias).add(0, c, sum * hidden_scale[c]);
    if (r.empty()) continue;
    Elements(dscale.residual_scale).add(0, c, residual_sum);
    Elements(dscale.residual_bias).add(0, c, sum * residual_scale[c]);
  }
  // Last, element by element: dr may be dout.
  for (int64_t t = 0; t < dout.rows(); ++t) {
    for (int64_t c = 0; c < dout.cols(); ++c) {
      const double g = d.get(t, c);
      dhidden.set(t, c, g * hidden_scale[c]);
      if (!r.empty()) dresidual.set(t, c, g * residual_scale[c]);
    }
  }
}

}  // namespace athanor::ops::reference
