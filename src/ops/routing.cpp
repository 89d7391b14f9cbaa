#include "ops/routing.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/checks.h"
#include "ops/cpu/reference/routing.h"
#include "ops/cpu/routing.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

/// The first `count` entries of order must name rows of [0, rows).
void check_order(const Checks& check, const Tensor& order, int64_t count, int64_t rows) {
  check.index_vector("order", order, order.numel());
  check.that(count >= 0 && count <= order.numel(), "count outside order");
  const int32_t* row = order.as<int32_t>();
  const bool valid = std::all_of(row, row + count, [&](int32_t r) { return r >= 0 && r < rows; });
  check.that(valid, "order names a row that does not exist");
}

/// place[t]: where token t stands in `order`, −1 for a token without an expert.
void invert(const int32_t* order, int64_t count, int32_t* place, int64_t tokens) {
  std::fill(place, place + tokens, -1);
  for (int64_t i = 0; i < count; ++i) place[order[i]] = static_cast<int32_t>(i);
}

/// The work of passing over `count` rows of each of `sorted`, and over all of `whole`. The shape is
/// that of `shape_of`: it does not depend on where the tokens went.
OpWork moves_rows(const Tensor& shape_of, int64_t count, std::initializer_list<Tensor> sorted,
                  std::initializer_list<Tensor> whole = {}) {
  OpWork work = moves(shape_of, whole);
  for (const Tensor& t : sorted) {
    work.bytes += static_cast<double>(count * t.cols()) * static_cast<double>(size_of(t.dtype()));
  }
  return work;
}

}  // namespace

void gelu(Context& ctx, const Tensor& x, const Tensor& y) {
  const TraceSpan span(ctx, "gelu", [&] { return moves(x, {x, y}); });
  const Checks check("gelu", x);
  check.real("x", x, x.rows(), x.cols());
  check.real_or_act("y", y, x.rows(), x.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::gelu(x, y);
  } else {
    cpu::gelu(ctx, x, y);
  }
}

void gelu_backward(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const TraceSpan span(ctx, "gelu_backward", [&] { return moves(x, {dy, x, dx}); });
  const Checks check("gelu_backward", x);
  check.real("x", x, x.rows(), x.cols());
  check.real_or_act("dy", dy, x.rows(), x.cols());
  check.real_or_act("dx", dx, x.rows(), x.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::gelu_backward(dy, x, dx);
  } else {
    cpu::gelu_backward(ctx, dy, x, dx);
  }
}

void depth_average(Context& ctx, const Tensor& r, const Tensor& gamma, const Tensor& previous,
                   const Tensor& state) {
  const TraceSpan span(ctx, "depth_average", [&] { return moves(r, {r, previous, state}); });
  const Checks check("depth_average", r);
  check.real("r", r, r.rows(), r.cols());
  check.real_vector("gamma", gamma, r.cols());
  check.real("previous", previous, r.rows(), r.cols());
  check.real("state", state, r.rows(), r.cols());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::depth_average(r, gamma, previous, state);
  } else {
    cpu::depth_average(ctx, r, gamma, previous, state);
  }
}

void depth_average_backward(Context& ctx, const Tensor& dstate, const Tensor& gamma,
                            const Tensor& previous, const Tensor& dprevious, const Tensor& dgamma) {
  const TraceSpan span(ctx, "depth_average_backward",
                       [&] { return moves(dstate, {dstate, previous, dprevious}); });
  const Checks check("depth_average_backward", dstate);
  check.real("dstate", dstate, dstate.rows(), dstate.cols());
  check.real_vector("gamma", gamma, dstate.cols());
  check.real("previous", previous, dstate.rows(), dstate.cols());
  check.real("dprevious", dprevious, dstate.rows(), dstate.cols());
  check.real_vector("dgamma", dgamma, dstate.cols());
  if (runs_reference(ctx, check)) {
    if (!ctx.planning()) {
      reference::depth_average_backward(dstate, gamma, previous, dprevious, dgamma);
    }
  } else {
    cpu::depth_average_backward(ctx, dstate, gamma, previous, dprevious, dgamma);
  }
}

void route(Context& ctx, const Tensor& logits, const Tensor& bias, const Tensor& probability,
           const Tensor& expert, const Tensor& weight) {
  const TraceSpan span(ctx, "route",
                       [&] { return moves(logits, {logits, probability, expert, weight}); });
  const Checks check("route", logits);
  check.real("logits", logits, logits.rows(), logits.cols());
  check.real_vector("bias", bias, logits.cols());
  check.real("probability", probability, logits.rows(), logits.cols());
  check.index_vector("expert", expert, logits.rows());
  check.real_vector("weight", weight, logits.rows());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::route(logits, bias, probability, expert, weight);
  } else {
    cpu::route(ctx, logits, bias, probability, expert, weight);
  }
}

void route_backward(Context& ctx, const Tensor& dweight, const Tensor& probability,
                    const Tensor& expert, const Tensor& dlogits) {
  const TraceSpan span(ctx, "route_backward",
                       [&] { return moves(probability, {dweight, probability, expert, dlogits}); });
  const Checks check("route_backward", probability);
  const int64_t tokens = probability.rows(), classes = probability.cols();
  check.real("probability", probability, tokens, classes);
  check.real_vector("dweight", dweight, tokens);
  check.index_vector("expert", expert, tokens);
  check.real_or_act("dlogits", dlogits, tokens, classes);
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::route_backward(dweight, probability, expert, dlogits);
  } else {
    cpu::route_backward(ctx, dweight, probability, expert, dlogits);
  }
}

void sort_by_expert(Context& ctx, const Tensor& expert, int64_t experts, const Tensor& order,
                    std::span<int64_t> offsets) {
  const TraceSpan span(ctx, "sort_by_expert", [&] { return moves(expert, {expert, order}); });
  const Checks check("sort_by_expert", DType::kF32);
  const int64_t tokens = expert.numel();
  check.index_vector("expert", expert, tokens);
  check.index_vector("order", order, tokens);
  check.that(static_cast<int64_t>(offsets.size()) == experts + 1,
             "offsets has experts + 1 entries");
  if (ctx.planning()) {
    std::fill(offsets.begin(), offsets.end(), tokens);
    offsets[0] = 0;
    return;
  }
  const int32_t* choice = expert.as<int32_t>();
  int32_t* sorted = order.as<int32_t>();
  std::fill(offsets.begin(), offsets.end(), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    if (choice[t] < 0 || choice[t] > experts) {
      throw bug(fmt::format("sort_by_expert: token {} has expert {} of {}", t, choice[t], experts));
    }
    if (choice[t] < experts) ++offsets[choice[t] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
  std::fill(sorted + offsets[experts], sorted + tokens, -1);
  // Each begin moves to its end while tokens are placed, and is put back after.
  for (int64_t t = 0; t < tokens; ++t) {
    if (choice[t] < experts) sorted[offsets[choice[t]]++] = static_cast<int32_t>(t);
  }
  for (int64_t e = experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

void gather_rows(Context& ctx, const Tensor& from, const Tensor& order, int64_t count,
                 const Tensor& to) {
  const TraceSpan span(ctx, "gather_rows", [&] { return moves_rows(to, count, {from, to}); });
  const Checks check("gather_rows", real_of(to.dtype()));
  check.real_or_act("to", to, to.rows(), to.cols());
  check.real_or_act("from", from, from.rows(), to.cols());
  check.that(count <= to.rows(), "count outside to");
  if (ctx.planning()) return;
  check_order(check, order, count, from.rows());
  if (runs_reference(ctx, check)) {
    reference::gather_rows(from, order.as<int32_t>(), count, to);
  } else {
    cpu::gather_rows(ctx, from, order.as<int32_t>(), count, to);
  }
}

void scatter_add_rows(Context& ctx, const Tensor& from, const Tensor& order, int64_t count,
                      const Tensor& to) {
  const TraceSpan span(ctx, "scatter_add_rows",
                       [&] { return moves_rows(from, count, {from, to, to}); });
  const Checks check("scatter_add_rows", to);
  check.real("to", to, to.rows(), to.cols());
  check.real_or_act("from", from, from.rows(), to.cols());
  check.that(count <= from.rows(), "count outside from");
  if (ctx.planning()) return;
  check_order(check, order, count, to.rows());
  if (runs_reference(ctx, check)) {
    reference::scatter_add_rows(from, order.as<int32_t>(), count, to);
  } else {
    cpu::scatter_add_rows(ctx, from, order.as<int32_t>(), count, to);
  }
}

void combine(Context& ctx, const Tensor& y, const Tensor& order, int64_t count,
             const Tensor& weight, const Tensor& out) {
  const TraceSpan span(ctx, "combine", [&] { return moves_rows(y, count, {y}, {out}); });
  const Checks check("combine", out);
  check.real("out", out, out.rows(), out.cols());
  check.real_or_act("y", y, y.rows(), out.cols());
  check.that(count <= y.rows(), "count outside y");
  check.real_vector("weight", weight, out.rows());
  const ArenaScope scope(ctx.scratch());
  const Tensor place = ctx.scratch().tensor(DType::kI32, {out.rows()});
  if (ctx.planning()) return;
  check_order(check, order, count, out.rows());
  invert(order.as<int32_t>(), count, place.as<int32_t>(), out.rows());
  if (runs_reference(ctx, check)) {
    reference::combine(y, place.as<int32_t>(), weight, out);
  } else {
    cpu::combine(ctx, y, place.as<int32_t>(), weight, out);
  }
}

void combine_backward(Context& ctx, const Tensor& dout, const Tensor& y, const Tensor& order,
                      int64_t count, const Tensor& weight, const Tensor& dy,
                      const Tensor& dweight) {
  const TraceSpan span(ctx, "combine_backward",
                       [&] { return moves_rows(y, count, {y, dy}, {dout, dweight}); });
  const Checks check("combine_backward", dout);
  check.real("dout", dout, dout.rows(), dout.cols());
  check.real_or_act("y", y, y.rows(), dout.cols());
  check.real_or_act("dy", dy, dy.rows(), dout.cols());
  check.that(count <= y.rows() && count <= dy.rows(), "count outside y or dy");
  check.real_vector("weight", weight, dout.rows());
  check.real_vector("dweight", dweight, dout.rows());
  const ArenaScope scope(ctx.scratch());
  const Tensor place = ctx.scratch().tensor(DType::kI32, {dout.rows()});
  if (ctx.planning()) return;
  check_order(check, order, count, dout.rows());
  invert(order.as<int32_t>(), count, place.as<int32_t>(), dout.rows());
  if (runs_reference(ctx, check)) {
    reference::combine_backward(dout, y, place.as<int32_t>(), weight, dy, dweight);
  } else {
    cpu::combine_backward(ctx, dout, y, place.as<int32_t>(), weight, dy, dweight);
  }
}

void silu_product(Context& ctx, const Tensor& gate_up, int64_t count, const Tensor& h) {
  const TraceSpan span(ctx, "silu_product",
                       [&] { return moves_rows(gate_up, count, {gate_up, h}); });
  const Checks check("silu_product", real_of(h.dtype()));
  check.real_or_act("h", h, h.rows(), h.cols());
  check.real_or_act("gate_up", gate_up, gate_up.rows(), 2 * h.cols());
  check.that(count >= 0 && count <= h.rows() && count <= gate_up.rows(), "count outside the rows");
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::silu_product(gate_up, count, h);
  } else {
    cpu::silu_product(ctx, gate_up, count, h);
  }
}

void silu_product_backward(Context& ctx, const Tensor& dh, const Tensor& gate_up, int64_t count,
                           const Tensor& dgate_up) {
  const TraceSpan span(ctx, "silu_product_backward",
                       [&] { return moves_rows(gate_up, count, {dh, gate_up, dgate_up}); });
  const Checks check("silu_product_backward", real_of(dh.dtype()));
  check.real_or_act("dh", dh, dh.rows(), dh.cols());
  check.real_or_act("gate_up", gate_up, gate_up.rows(), 2 * dh.cols());
  check.real_or_act("dgate_up", dgate_up, dgate_up.rows(), 2 * dh.cols());
  check.that(
      count >= 0 && count <= dh.rows() && count <= gate_up.rows() && count <= dgate_up.rows(),
      "count outside the rows");
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::silu_product_backward(dh, gate_up, count, dgate_up);
  } else {
    cpu::silu_product_backward(ctx, dh, gate_up, count, dgate_up);
  }
}

}  // namespace athanor::ops
