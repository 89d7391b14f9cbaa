#include "ops/cca.h"

#include <algorithm>

#include "base/math.h"
#include "ops/checks.h"
#include "ops/cpu/cca.h"
#include "ops/cpu/reference/cca.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

void check_heads(const Checks& check, Heads heads) {
  check.that(
      heads.key >= 1 && heads.query >= heads.key && heads.query % heads.key == 0 && heads.size >= 1,
      "query heads must be a multiple of key heads");
}

void check_rope(const Checks& check, const RopeTable& rope, Heads heads, const Tensor& positions,
                int64_t tokens, bool planning) {
  check.that(rope.rotary % 2 == 0 && rope.rotary >= 0 && rope.rotary <= heads.size,
             "the rotated dimensions must be even and fit into a head");
  check.index_vector("positions", positions, tokens);
  if (rope.rotary == 0) return;
  check.real("rope.cos", rope.cos, rope.cos.rows(), rope.rotary / 2);
  check.real("rope.sin", rope.sin, rope.cos.rows(), rope.rotary / 2);
  if (planning) return;
  const int32_t* position = positions.as<int32_t>();
  check.that(std::all_of(position, position + tokens,
                         [&](int32_t p) { return p >= 0 && p < rope.cos.rows(); }),
             "a position lies outside the rotary table");
}

}  // namespace

void qk_mean(Context& ctx, const Tensor& c, Heads heads, const Tensor& z) {
  const TraceSpan span(ctx, "qk_mean", [&] { return moves(z, {c, z, z}); });
  const Checks check("qk_mean", z);
  check_heads(check, heads);
  check.real("z", z, z.rows(), heads.channels());
  check.real("c", c, z.rows(), heads.channels());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::qk_mean(c, heads, z);
  } else {
    cpu::qk_mean(ctx, c, heads, z);
  }
}

void qk_mean_backward(Context& ctx, const Tensor& dz, Heads heads, const Tensor& dc) {
  const TraceSpan span(ctx, "qk_mean_backward", [&] { return moves(dz, {dz, dc, dc}); });
  const Checks check("qk_mean_backward", dz);
  check_heads(check, heads);
  check.real("dz", dz, dz.rows(), heads.channels());
  check.real("dc", dc, dz.rows(), heads.channels());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::qk_mean_backward(dz, heads, dc);
  } else {
    cpu::qk_mean_backward(ctx, dz, heads, dc);
  }
}

RopeTable make_rope_table(Arena& arena, DType real, double theta, int64_t rotary,
                          int64_t positions) {
  const Checks check("make_rope_table", real);
  check.that(rotary >= 0 && rotary % 2 == 0 && positions >= 0 && theta > 0,
             "the rotated dimensions must be even and θ positive");
  const int64_t half = rotary / 2;
  const RopeTable table{arena.tensor(real, {positions, half}),
                        arena.tensor(real, {positions, half}), rotary};
  if (arena.planning()) return table;
  const auto write = [&](auto* cosine, auto* sine) {
    using T = std::remove_reference_t<decltype(*cosine)>;
    for (int64_t j = 0; j < half; ++j) {
      const double frequency =
          math::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(rotary));
      for (int64_t p = 0; p < positions; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        cosine[p * half + j] = static_cast<T>(math::cos(angle));
        sine[p * half + j] = static_cast<T>(math::sin(angle));
      }
    }
  };
  if (real == DType::kF64) {
    write(table.cos.as<double>(), table.sin.as<double>());
  } else {
    write(table.cos.as<float>(), table.sin.as<float>());
  }
  return table;
}

void qk_norm_rope(Context& ctx, const Tensor& z, Heads heads, const Tensor& temperature,
                  const RopeTable& rope, const Tensor& positions, const Tensor& q, const Tensor& k,
                  const Tensor& inv_norm) {
  const TraceSpan span(ctx, "qk_norm_rope", [&] { return moves(z, {z, q, k, inv_norm}); });
  const Checks check("qk_norm_rope", z);
  check_heads(check, heads);
  check.real("z", z, z.rows(), heads.channels());
  check.real_vector("temperature", temperature, heads.key);
  check_rope(check, rope, heads, positions, z.rows(), ctx.planning());
  check.real_or_act("q", q, z.rows(), heads.query * heads.size);
  check.real_or_act("k", k, z.rows(), heads.key * heads.size);
  check.real("inv_norm", inv_norm, z.rows(), heads.total());
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::qk_norm_rope(z, heads, temperature, rope, positions, q, k, inv_norm);
  } else {
    cpu::qk_norm_rope(ctx, z, heads, temperature, rope, positions, q, k, inv_norm);
  }
}

void qk_norm_rope_backward(Context& ctx, const Tensor& dq, const Tensor& dk, const Tensor& z,
                           Heads heads, const Tensor& temperature, const RopeTable& rope,
                           const Tensor& positions, const Tensor& inv_norm, const Tensor& dz,
                           const Tensor& dtemperature) {
  const TraceSpan span(ctx, "qk_norm_rope_backward",
                       [&] { return moves(z, {dq, dk, z, inv_norm, dz}); });
  const Checks check("qk_norm_rope_backward", z);
  check_heads(check, heads);
  check.real("z", z, z.rows(), heads.channels());
  check.real("dq", dq, z.rows(), heads.query * heads.size);
  check.real("dk", dk, z.rows(), heads.key * heads.size);
  check.real_vector("temperature", temperature, heads.key);
  check_rope(check, rope, heads, positions, z.rows(), ctx.planning());
  check.real("inv_norm", inv_norm, z.rows(), heads.total());
  check.real("dz", dz, z.rows(), heads.channels());
  check.real_vector("dtemperature", dtemperature, heads.key);
  if (!runs_reference(ctx, check)) {
    cpu::qk_norm_rope_backward(ctx, dq, dk, z, heads, temperature, rope, positions, inv_norm, dz,
                               dtemperature);
  } else if (!ctx.planning()) {
    reference::qk_norm_rope_backward(dq, dk, z, heads, temperature, rope, positions, inv_norm, dz,
                                     dtemperature);
  }
}

void value_delay(Context& ctx, const Tensor& current, const Tensor& delayed, const Tensor& history,
                 Segments segments, const Tensor& v) {
  const TraceSpan span(ctx, "value_delay", [&] { return moves(v, {current, delayed, v}); });
  const Checks check("value_delay", current);
  const int64_t tokens = current.rows(), width = current.cols();
  check.real("current", current, tokens, width);
  check.real("delayed", delayed, tokens, width);
  check.segments(segments, tokens);
  if (!history.empty()) {
    check.real_vector("history", history, static_cast<int64_t>(segments.size() - 1) * width);
  }
  check.real_or_act("v", v, tokens, 2 * width);
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::value_delay(current, delayed, history, segments, v);
  } else {
    cpu::value_delay(ctx, current, delayed, history, segments, v);
  }
}

void value_delay_backward(Context& ctx, const Tensor& dv, Segments segments, const Tensor& dcurrent,
                          const Tensor& ddelayed) {
  const TraceSpan span(ctx, "value_delay_backward",
                       [&] { return moves(dv, {dv, dcurrent, ddelayed}); });
  const Checks check("value_delay_backward", dv);
  const int64_t tokens = dv.rows(), width = dcurrent.cols();
  check.real("dv", dv, tokens, 2 * width);
  check.segments(segments, tokens);
  check.real_or_act("dcurrent", dcurrent, tokens, width);
  check.real_or_act("ddelayed", ddelayed, tokens, width);
  if (ctx.planning()) return;
  if (runs_reference(ctx, check)) {
    reference::value_delay_backward(dv, segments, dcurrent, ddelayed);
  } else {
    cpu::value_delay_backward(ctx, dv, segments, dcurrent, ddelayed);
  }
}

}  // namespace athanor::ops
