#include "ops/cpu/reference/elementwise.h"

#include <algorithm>

#include "ops/cpu/reference/elements.h"

namespace athanor::ops::reference {

void convert(const Tensor& from, const Tensor& to) {
  const Elements a(from), b(to);
  for (int64_t r = 0; r < to.rows(); ++r) {
    for (int64_t c = 0; c < to.cols(); ++c) b.set(r, c, a.get(r, c));
  }
}

void fill(const Tensor& t, double value) {
  const Elements a(t);
  for (int64_t r = 0; r < t.rows(); ++r) {
    for (int64_t c = 0; c < t.cols(); ++c) a.set(r, c, value);
  }
}

void add(const Tensor& from, const Tensor& to) {
  const Elements a(from), b(to);
  for (int64_t r = 0; r < to.rows(); ++r) {
    for (int64_t c = 0; c < to.cols(); ++c) b.add(r, c, a.get(r, c));
  }
}

void accumulate_column_sums(const Tensor& dy, const Tensor& db) {
  const Elements a(dy), sums(db);
  for (int64_t c = 0; c < dy.cols(); ++c) {
    double sum = 0;
    for (int64_t r = 0; r < dy.rows(); ++r) sum += a.get(r, c);
    sums.add(0, c, sum);
  }
}

void block_squares(const Tensor& x, int64_t block, std::span<double> sums) {
  const Elements a(x.reshaped({x.numel()}));
  for (size_t b = 0; b < sums.size(); ++b) {
    const int64_t begin = static_cast<int64_t>(b) * block;
    double sum = 0;
    for (int64_t i = begin; i < std::min(begin + block, x.numel()); ++i) sum += a[i] * a[i];
    sums[b] = sum;
  }
}

}  // namespace athanor::ops::reference
