#include "ops/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/elementwise.h"
#include "ops/cpu/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/routing.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

void gelu_row(const float* x, int64_t cols, FloatRow y) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(x, c, n);
    store(hn::Mul(v, normal(v).cdf), y, c, n);
  });
}

/// d/dx x·Φ(x) = Φ(x) + x·e^(−x²/2)/√(2π).
void gelu_row_backward(FloatRow dy, const float* x, int64_t cols, FloatRow dx) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(x, c, n);
    const NormalValues value = normal(v);
    const auto density = hn::Mul(splat(0.39894228040143268f), value.kernel);
    store(hn::Mul(load(dy, c, n), hn::MulAdd(v, density, value.cdf)), dx, c, n);
  });
}

void depth_row(const float* r, const float* gamma, const float* previous, int64_t cols,
               float* state) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::MulAdd(load(gamma, c, n), load(previous, c, n), load(r, c, n)), state, c, n);
  });
}

void depth_row_backward(const float* dstate, const float* gamma, const float* previous,
                        int64_t cols, float* dprevious, float* sums) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto d = load(dstate, c, n);
    store(hn::MulAdd(d, load(previous, c, n), load(sums, c, n)), sums, c, n);
    store(hn::Mul(load(gamma, c, n), d), dprevious, c, n);
  });
}

/// p = softmax(logits); returns the index of the largest p + bias.
int32_t route_row(const float* logits, const float* bias, int64_t classes, float* p) {
  const float infinity = std::numeric_limits<float>::infinity();
  auto largest = splat(-infinity);
  for_vectors(classes, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto present = hn::FirstN(kFloat, n);
    largest = hn::Max(largest, hn::IfThenElse(present, load(logits, c, n), splat(-infinity)));
  });
  const float top = hn::GetLane(hn::MaxOfLanes(kFloat, largest));
  auto sums = hn::Zero(kFloat);
  for_vectors(classes, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto v = load(logits, c, n);
    auto e = exp(hn::Sub(v, splat(top)));
    if (std::isinf(top)) {
      // The limit of the softmax: the infinite entries share the probability. A NaN stays.
      const auto equal = hn::IfThenElseZero(hn::Eq(v, splat(top)), splat(1.0f));
      e = hn::IfThenElse(hn::IsNaN(v), v, equal);
    }
    sums = hn::Add(sums, hn::IfThenElseZero(hn::FirstN(kFloat, n), e));
    store(e, p, c, n);
  });
  const auto sum = splat(sum_of(sums));
  for_vectors(classes, [&](int64_t c, size_t n)
                           ATHANOR_INLINE_BODY { store(hn::Div(load(p, c, n), sum), p, c, n); });
  int32_t best = 0;
  for (int32_t e = 1; e < classes; ++e) {
    if (p[e] + bias[e] > p[best] + bias[best]) best = e;
  }
  return best;
}

/// dlogits = d·p[chosen] · (one at the chosen − p).
void route_row_backward(float d, const float* p, int64_t chosen, int64_t classes,
                        FloatRow dlogits) {
  const auto factor = splat(d * p[chosen]);
  for_vectors(classes, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto lane = hn::Iota(kFloat, static_cast<float>(c));
    const auto one =
        hn::IfThenElseZero(hn::Eq(lane, splat(static_cast<float>(chosen))), splat(1.0f));
    store(hn::Mul(factor, hn::Sub(one, load(p, c, n))), dlogits, c, n);
  });
}

void scaled_row(FloatRow from, float factor, int64_t cols, float* to) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(from, c, n), splat(factor)), to, c, n);
  });
}

/// dy = weight · dout; returns dout · y.
float combine_row_backward(const float* dout, FloatRow y, float weight, int64_t cols, FloatRow dy) {
  auto even = hn::Zero(kFloat), odd = hn::Zero(kFloat);
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto d = load(dout, c, n);
    const auto sum = hn::MulAdd(d, load(y, c, n), even);
    even = odd;
    odd = sum;
    store(hn::Mul(d, splat(weight)), dy, c, n);
  });
  return sum_of(hn::Add(even, odd));
}

void silu_row(FloatRow gate, FloatRow up, int64_t cols, FloatRow h) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto g = load(gate, c, n);
    store(hn::Mul(hn::Mul(g, sigmoid(g)), load(up, c, n)), h, c, n);
  });
}

/// silu'(g) = σ(g)·(1 + g·(1 − σ(g))).
void silu_row_backward(FloatRow dh, FloatRow gate, FloatRow up, int64_t cols, FloatRow dgate,
                       FloatRow dup) {
  for_vectors(cols, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    const auto d = load(dh, c, n), g = load(gate, c, n), u = load(up, c, n);
    const auto s = sigmoid(g);
    const auto slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(splat(1.0f), s), splat(1.0f)));
    store(hn::Mul(hn::Mul(d, u), slope), dgate, c, n);
    store(hn::Mul(d, hn::Mul(g, s)), dup, c, n);
  });
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(gelu_row);
HWY_EXPORT(gelu_row_backward);
HWY_EXPORT(depth_row);
HWY_EXPORT(depth_row_backward);
HWY_EXPORT(route_row);
HWY_EXPORT(route_row_backward);
HWY_EXPORT(scaled_row);
HWY_EXPORT(combine_row_backward);
HWY_EXPORT(silu_row);
HWY_EXPORT(silu_row_backward);

void clear(FloatRow row, int64_t cols) {
  std::memset(row.data, 0, static_cast<size_t>(cols) * (row.bf16 ? 2 : 4));
}

/// body(row) over all rows, in tasks of a size that pays.
template <class Body>
void for_rows(const Context& ctx, int64_t rows, int64_t cols, Body body) {
  for_row_blocks(ctx, rows, rows_per_task(cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) body(t);
  });
}

}  // namespace

void gelu(const Context& ctx, const Tensor& x, const Tensor& y) {
  const auto kernel = &ATHANOR_KERNEL(gelu_row, ctx.isa());
  const FloatRows out(y);
  for_rows(ctx, x.rows(), x.cols(), [&](int64_t t) { kernel(x.row<float>(t), x.cols(), out[t]); });
}

void gelu_backward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const auto kernel = &ATHANOR_KERNEL(gelu_row_backward, ctx.isa());
  const FloatRows dout(dy), din(dx);
  for_rows(ctx, x.rows(), x.cols(),
           [&](int64_t t) { kernel(dout[t], x.row<float>(t), x.cols(), din[t]); });
}

void depth_average(const Context& ctx, const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state) {
  const auto kernel = &ATHANOR_KERNEL(depth_row, ctx.isa());
  for_rows(ctx, r.rows(), r.cols(), [&](int64_t t) {
    kernel(r.row<float>(t), gamma.as<float>(), previous.row<float>(t), r.cols(),
           state.row<float>(t));
  });
}

void depth_average_backward(const Context& ctx, const Tensor& dstate, const Tensor& gamma,
                            const Tensor& previous, const Tensor& dprevious, const Tensor& dgamma) {
  const int64_t cols = dstate.cols();
  const ArenaScope scope(ctx.scratch());
  const PartialSums partial(ctx.scratch(), dstate.rows(), 1, cols);
  if (ctx.planning()) return;
  const auto kernel = &ATHANOR_KERNEL(depth_row_backward, ctx.isa());
  for_row_blocks(ctx, dstate.rows(), kSumRows, [&](int64_t begin, int64_t end) {
    float* sums = partial.block(begin, 0);
    std::memset(sums, 0, static_cast<size_t>(cols) * sizeof(float));
    for (int64_t t = begin; t < end; ++t) {
      kernel(dstate.row<float>(t), gamma.as<float>(), previous.row<float>(t), cols,
             dprevious.row<float>(t), sums);
    }
  });
  partial.add_to(ctx, 0, dgamma.as<float>(), 1, nullptr);
}

void route(const Context& ctx, const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight) {
  const auto kernel = &ATHANOR_KERNEL(route_row, ctx.isa());
  const int64_t classes = logits.cols();
  for_rows(ctx, logits.rows(), 8 * classes, [&](int64_t t) {
    float* p = probability.row<float>(t);
    const int32_t chosen = kernel(logits.row<float>(t), bias.as<float>(), classes, p);
    expert.as<int32_t>()[t] = chosen;
    weight.as<float>()[t] = chosen == classes - 1 ? 0.0f : p[chosen];
  });
}

void route_backward(const Context& ctx, const Tensor& dweight, const Tensor& probability,
                    const Tensor& expert, const Tensor& dlogits) {
  const auto kernel = &ATHANOR_KERNEL(route_row_backward, ctx.isa());
  const int64_t classes = probability.cols();
  const FloatRows din(dlogits);
  for_rows(ctx, probability.rows(), 8 * classes, [&](int64_t t) {
    const int32_t chosen = expert.as<int32_t>()[t];
    if (chosen == classes - 1) {
      clear(din[t], classes);
    } else {
      kernel(dweight.as<float>()[t], probability.row<float>(t), chosen, classes, din[t]);
    }
  });
}

void gather_rows(const Context& ctx, const Tensor& from, const int32_t* order, int64_t count,
                 const Tensor& to) {
  const RowKernel kernel = convert_kernel(ctx.isa());
  const FloatRows source(from), target(to);
  for_rows(ctx, count, to.cols(),
           [&](int64_t i) { kernel(source[order[i]], target[i], to.cols()); });
}

void scatter_add_rows(const Context& ctx, const Tensor& from, const int32_t* order, int64_t count,
                      const Tensor& to) {
  // Stripes of columns, so that a row that several rows enter has one owner; a few cache lines wide.
  constexpr int64_t kStripe = 64;
  const RowKernel kernel = add_kernel(ctx.isa());
  const FloatRows source(from), target(to);
  for_row_blocks(ctx, to.cols(), kStripe, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      kernel(source.at(i, begin), target.at(order[i], begin), end - begin);
    }
  });
}

void combine(const Context& ctx, const Tensor& y, const int32_t* place, const Tensor& weight,
             const Tensor& out) {
  const auto kernel = &ATHANOR_KERNEL(scaled_row, ctx.isa());
  const FloatRows in(y), result(out);
  for_rows(ctx, out.rows(), out.cols(), [&](int64_t t) {
    if (place[t] < 0) {
      clear(result[t], out.cols());
    } else {
      kernel(in[place[t]], weight.as<float>()[t], out.cols(), out.row<float>(t));
    }
  });
}

void combine_backward(const Context& ctx, const Tensor& dout, const Tensor& y, const int32_t* place,
                      const Tensor& weight, const Tensor& dy, const Tensor& dweight) {
  const auto kernel = &ATHANOR_KERNEL(combine_row_backward, ctx.isa());
  const FloatRows in(y), din(dy);
  for_rows(ctx, dout.rows(), dout.cols(), [&](int64_t t) {
    dweight.as<float>()[t] = place[t] < 0
                                 ? 0.0f
                                 : kernel(dout.row<float>(t), in[place[t]], weight.as<float>()[t],
                                          dout.cols(), din[place[t]]);
  });
}

void silu_product(const Context& ctx, const Tensor& gate_up, int64_t count, const Tensor& h) {
  const auto kernel = &ATHANOR_KERNEL(silu_row, ctx.isa());
  const FloatRows in(gate_up), out(h);
  const int64_t width = h.cols();
  for_rows(ctx, count, width,
           [&](int64_t t) { kernel(in.at(t, 0), in.at(t, width), width, out[t]); });
}

void silu_product_backward(const Context& ctx, const Tensor& dh, const Tensor& gate_up,
                           int64_t count, const Tensor& dgate_up) {
  const auto kernel = &ATHANOR_KERNEL(silu_row_backward, ctx.isa());
  const FloatRows d(dh), in(gate_up), din(dgate_up);
  const int64_t width = dh.cols();
  for_rows(ctx, count, width, [&](int64_t t) {
    kernel(d[t], in.at(t, 0), in.at(t, width), width, din.at(t, 0), din.at(t, width));
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
