#include "ops/cpu/reference/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/math.h"
#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {
namespace {

int64_t first_visible(int64_t position, int64_t window) {
  return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
}

double dot(const Elements& a, int64_t a_row, int64_t a_col, const Elements& b, int64_t b_row,
           int64_t b_col, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a.get(a_row, a_col + i) * b.get(b_row, b_col + i);
  return sum;
}

}  // namespace

void attention(const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
  const Elements query(q), result(out), log_sum(lse);
  const int64_t d = shape.heads.size, group = shape.heads.query / shape.heads.key;
  std::vector<double> p;
  for (const AttentionSegment& segment : segments) {
    const auto matrix = [&](const void* data) {
      return Elements(
          Tensor(const_cast<void*>(data), q.dtype(), {segment.key_count, shape.heads.key * d}));
    };
    const Elements keys = matrix(segment.keys), values = matrix(segment.values);
    for (int64_t i = 0; i < segment.query_count; ++i) {
      const int64_t t = segment.query_begin + i;
      const int64_t last = segment.key_count - segment.query_count + i;
      const int64_t first = first_visible(last, shape.window);
      for (int64_t h = 0; h < shape.heads.query; ++h) {
        const int64_t key_column = h / group * d;
        p.assign(static_cast<size_t>(last - first + 1), 0.0);
        double largest = -std::numeric_limits<double>::infinity();
        for (int64_t j = first; j <= last; ++j) {
          p[j - first] = shape.scale * dot(query, t, h * d, keys, j, key_column, d);
          largest = std::max(largest, p[j - first]);
        }
        double sum = 0;
        for (double& value : p) {
          value = math::exp(value - largest);
          sum += value;
        }
        for (int64_t c = 0; c < d; ++c) {
          double mean = 0;
          for (int64_t j = first; j <= last; ++j) {
            mean += p[j - first] * values.get(j, key_column + c);
          }
          result.set(t, h * d + c, mean / sum);
        }
        if (!lse.empty()) log_sum.set(t, h, largest + math::log(sum));
      }
    }
  }
}

// p = exp(s·scale − lse); dv_j += p·dout; dlogit = p·(dout·v_j − dout·out); dq += scale·dlogit·k_j;
// dk_j += scale·dlogit·q.
void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const Elements d_result(dout), query(q), key(k), value(v), result(out), log_sum(lse);
  const int64_t d = shape.heads.size, group = shape.heads.query / shape.heads.key;
  const int64_t tokens = q.rows(), key_width = shape.heads.key * d;
  std::vector<double> d_query(d);
  std::vector<double> d_keys(static_cast<size_t>(tokens * key_width)), d_values(d_keys);
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const int64_t begin = segments[s];
    for (int64_t t = begin; t < segments[s + 1]; ++t) {
      const int64_t first = begin + first_visible(t - begin, shape.window);
      for (int64_t h = 0; h < shape.heads.query; ++h) {
        const int64_t key_column = h / group * d;
        std::fill(d_query.begin(), d_query.end(), 0.0);
        const double mean = dot(d_result, t, h * d, result, t, h * d, d);
        for (int64_t j = first; j <= t; ++j) {
          const double logit = shape.scale * dot(query, t, h * d, key, j, key_column, d);
          const double p = math::exp(logit - log_sum.get(t, h));
          const double dp = dot(d_result, t, h * d, value, j, key_column, d);
          const double d_logit = shape.scale * p * (dp - mean);
          for (int64_t c = 0; c < d; ++c) {
            d_query[c] += d_logit * key.get(j, key_column + c);
            d_keys[j * key_width + key_column + c] += d_logit * query.get(t, h * d + c);
            d_values[j * key_width + key_column + c] += p * d_result.get(t, h * d + c);
          }
        }
        for (int64_t c = 0; c < d; ++c) Elements(dq).set(t, h * d + c, d_query[c]);
      }
    }
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < key_width; ++c) {
      Elements(dk).set(t, c, d_keys[t * key_width + c]);
      Elements(dv).set(t, c, d_values[t * key_width + c]);
    }
  }
}

}  // namespace athanor::ops::reference
