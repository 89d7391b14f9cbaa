#include "ops/cpu/reference/cca.h"

#include <cmath>
#include <vector>

#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {
namespace {

constexpr double kNormEpsilon = 1e-12;

/// Row t of c as the convolution of segment s sees it: the two rows left of the segment come from
/// history or are 0.
double column_before(const Elements& c, const Tensor& history, int64_t s, int64_t begin, int64_t t,
                     int64_t channel) {
  if (t >= begin) return c.get(t, channel);
  // history [S, 2, C] lies as rows 2s (older) and 2s + 1.
  return history.empty() ? 0.0 : Elements(history).get(2 * s + 2 + (t - begin), channel);
}

}  // namespace

// y1[t] = w[·, 0] ⊙ c[t−1] + w[·, 1] ⊙ c[t] + b, from t = −1 of the segment on.
void depthwise_windows(const Tensor& c, const Tensor& history, Segments segments, Heads heads,
                       const Tensor& depthwise, const Tensor& bias, const Tensor& windows) {
  const Elements in(c), w(depthwise), b(bias), out(windows);
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const int64_t begin = segments[s];
    const auto at = [&](int64_t t, int64_t channel) {
      return column_before(in, history, static_cast<int64_t>(s), begin, t, channel);
    };
    for (int64_t t = begin; t < segments[s + 1]; ++t) {
      for (int64_t channel = 0; channel < heads.channels(); ++channel) {
        const int64_t head = channel / heads.size, i = channel % heads.size;
        for (int64_t tap = 0; tap < 2; ++tap) {
          const int64_t row = t - 1 + tap;
          const double y1 = w.get(channel, 0) * at(row - 1, channel) +
                            w.get(channel, 1) * at(row, channel) + b[channel];
          out.set(t, (2 * head + tap) * heads.size + i, y1);
        }
      }
    }
  }
}

// dy1[t] = dwindows[t] (newer half) + dwindows[t+1] (older half); y1[−1] is the bias alone.
void depthwise_windows_backward(const Tensor& dwindows, const Tensor& c, Segments segments,
                                Heads heads, const Tensor& depthwise, const Tensor& dc,
                                const Tensor& ddepthwise, const Tensor& dbias) {
  const Elements d(dwindows), in(c), w(depthwise), din(dc), dw(ddepthwise), db(dbias);
  for (int64_t channel = 0; channel < heads.channels(); ++channel) {
    const int64_t older = channel / heads.size * 2 * heads.size + channel % heads.size;
    const int64_t newer = older + heads.size;
    double older_sum = 0, newer_sum = 0, bias_sum = 0;
    for (size_t s = 0; s + 1 < segments.size(); ++s) {
      const int64_t begin = segments[s], end = segments[s + 1];
      const auto dy1 = [&](int64_t t) {
        if (t >= end) return 0.0;
        return d.get(t, newer) + (t + 1 < end ? d.get(t + 1, older) : 0.0);
      };
      bias_sum += d.get(begin, older);
      for (int64_t t = begin; t < end; ++t) {
        din.set(t, channel, w.get(channel, 1) * dy1(t) + w.get(channel, 0) * dy1(t + 1));
        older_sum += dy1(t) * (t > begin ? in.get(t - 1, channel) : 0.0);
        newer_sum += dy1(t) * in.get(t, channel);
        bias_sum += dy1(t);
      }
    }
    dw.add(channel, 0, older_sum);
    dw.add(channel, 1, newer_sum);
    db.add(0, channel, bias_sum);
  }
}

void qk_mean(const Tensor& c, Heads heads, const Tensor& z) {
  const Elements in(c), out(z);
  const int64_t group = heads.query / heads.key, d = heads.size;
  for (int64_t t = 0; t < c.rows(); ++t) {
    for (int64_t g = 0; g < heads.key; ++g) {
      for (int64_t i = 0; i < d; ++i) {
        const int64_t key = (heads.query + g) * d + i;
        double sum = 0;
        for (int64_t h = g * group; h < (g + 1) * group; ++h) {
          const double mean = 0.5 * (in.get(t, h * d + i) + in.get(t, key));
          sum += mean;
          out.add(t, h * d + i, mean);
        }
        out.add(t, key, sum / static_cast<double>(group));
      }
    }
  }
}

// The mean of query head h receives dz_h + dz_k/group; half of it goes to q0_h, half to k0.
void qk_mean_backward(const Tensor& dz, Heads heads, const Tensor& dc) {
  const Elements d(dz), din(dc);
  const int64_t group = heads.query / heads.key, size = heads.size;
  for (int64_t t = 0; t < dz.rows(); ++t) {
    for (int64_t g = 0; g < heads.key; ++g) {
      for (int64_t i = 0; i < size; ++i) {
        const int64_t key = (heads.query + g) * size + i;
        double sum = 0;
        for (int64_t h = g * group; h < (g + 1) * group; ++h) {
          const double dmean = d.get(t, h * size + i) + d.get(t, key) / static_cast<double>(group);
          sum += dmean;
          din.add(t, h * size + i, 0.5 * dmean);
        }
        din.add(t, key, 0.5 * sum);
      }
    }
  }
}

void qk_norm_rope(const Tensor& z, Heads heads, const Tensor& temperature, const RopeTable& rope,
                  const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm) {
  const Elements in(z), factor(temperature), cosine(rope.cos), sine(rope.sin);
  const Elements query(q), key(k), inverse(inv_norm);
  const int64_t d = heads.size, half = rope.rotary / 2;
  const int32_t* position = positions.as<int32_t>();
  std::vector<double> u(d);
  for (int64_t t = 0; t < z.rows(); ++t) {
    for (int64_t h = 0; h < heads.total(); ++h) {
      double squares = kNormEpsilon;
      for (int64_t i = 0; i < d; ++i) squares += in.get(t, h * d + i) * in.get(t, h * d + i);
      const double inverse_norm = 1.0 / std::sqrt(squares);
      inverse.set(t, h, inverse_norm);
      const bool is_key = h >= heads.query;
      const double scale = std::sqrt(static_cast<double>(d)) * inverse_norm *
                           (is_key ? factor[h - heads.query] : 1.0);
      for (int64_t i = 0; i < d; ++i) u[i] = scale * in.get(t, h * d + i);
      for (int64_t j = 0; j < half; ++j) {
        const double c = cosine.get(position[t], j), s = sine.get(position[t], j);
        const double a = u[j], b = u[j + half];
        u[j] = a * c - b * s;
        u[j + half] = b * c + a * s;
      }
      for (int64_t i = 0; i < d; ++i) {
        if (is_key) {
          key.set(t, (h - heads.query) * d + i, u[i]);
        } else {
          query.set(t, h * d + i, u[i]);
        }
      }
    }
  }
}

// With n = √d·z/ρ: du = the inverse rotation of dq; dT = du·n; dn = T·du; dz = √d/ρ · (dn −
// z·(z·dn)/ρ²).
void qk_norm_rope_backward(const Tensor& dq, const Tensor& dk, const Tensor& z, Heads heads,
                           const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature) {
  const Elements in(z), factor(temperature), cosine(rope.cos), sine(rope.sin);
  const Elements dquery(dq), dkey(dk), inverse(inv_norm), din(dz);
  const int64_t d = heads.size, half = rope.rotary / 2;
  const double root = std::sqrt(static_cast<double>(d));
  const int32_t* position = positions.as<int32_t>();
  std::vector<double> u(d), dfactor(heads.key);
  for (int64_t t = 0; t < z.rows(); ++t) {
    for (int64_t h = 0; h < heads.total(); ++h) {
      const int64_t g = h - heads.query;
      for (int64_t i = 0; i < d; ++i) {
        u[i] = g >= 0 ? dkey.get(t, g * d + i) : dquery.get(t, h * d + i);
      }
      for (int64_t j = 0; j < half; ++j) {
        const double c = cosine.get(position[t], j), s = sine.get(position[t], j);
        const double a = u[j], b = u[j + half];
        u[j] = a * c + b * s;
        u[j + half] = b * c - a * s;
      }
      const double rho = inverse.get(t, h);
      double dot = 0;
      for (int64_t i = 0; i < d; ++i) dot += in.get(t, h * d + i) * u[i];
      if (g >= 0) dfactor[g] += root * rho * dot;
      const double scale = root * rho * (g >= 0 ? factor[g] : 1.0);
      for (int64_t i = 0; i < d; ++i) {
        din.set(t, h * d + i, scale * (u[i] - in.get(t, h * d + i) * dot * rho * rho));
      }
    }
  }
  for (int64_t g = 0; g < heads.key; ++g) Elements(dtemperature).add(0, g, dfactor[g]);
}

void value_delay(const Tensor& current, const Tensor& delayed, const Tensor& history,
                 Segments segments, const Tensor& v) {
  const Elements now(current), late(delayed), out(v);
  const int64_t width = current.cols();
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    for (int64_t t = segments[s]; t < segments[s + 1]; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        out.set(t, i, now.get(t, i));
        double before = 0;
        if (t > segments[s]) {
          before = late.get(t - 1, i);
        } else if (!history.empty()) {
          before = Elements(history).get(static_cast<int64_t>(s), i);
        }
        out.set(t, width + i, before);
      }
    }
  }
}

void value_delay_backward(const Tensor& dv, Segments segments, const Tensor& dcurrent,
                          const Tensor& ddelayed) {
  const Elements d(dv), dnow(dcurrent), dlate(ddelayed);
  const int64_t width = dcurrent.cols();
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    for (int64_t t = segments[s]; t < segments[s + 1]; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        dnow.set(t, i, d.get(t, i));
        dlate.set(t, i, t + 1 < segments[s + 1] ? d.get(t + 1, width + i) : 0.0);
      }
    }
  }
}

}  // namespace athanor::ops::reference
