// The gradient of blocked attention (ops/cpu/attention.h). With pᵀ = exp(sᵀ − lse) per lane and
// dsᵀ = pᵀ ⊙ (V · doutᵀ − Σ dout ⊙ out): dqᵀ += Kᵀ · dsᵀ, dk += dsᵀ · q, dv += pᵀ · dout, block by block.
#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_backward.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/attention_inl.h"

#ifndef ATHANOR_OPS_CPU_ATTENTION_BACKWARD_TYPES
#define ATHANOR_OPS_CPU_ATTENTION_BACKWARD_TYPES
namespace athanor::ops::cpu {

/// One segment and key head, and a thread's memory for it.
struct BackwardTask {
  // Query 0 of the segment, first query head of the key head.
  FloatRow queries, out, dout;
  const float* lse;
  float* dq;
  // Key 0 of the segment, this key head.
  FloatRow keys, values;
  float *dk, *dv;
  int64_t query_stride, out_stride, dout_stride, lse_stride, dq_stride;
  int64_t key_stride, value_stride, dk_stride, dv_stride;
  int64_t tokens, group, window;
  int64_t size;  ///< d
  float scale;

  // Transposed copies [d][kBlock] and rows [kBlock][padded(d)].
  float *q_columns, *dout_columns, *dq_columns;
  float *q_rows, *dout_rows, *key_rows, *value_rows;
  float *s, *ds;  ///< [kBlock][kBlock]

  static int64_t floats(int64_t size) {
    return 3 * size * kBlock + 4 * kBlock * padded(size) + 2 * kBlock * kBlock;
  }
  void place(float* p) {
    for (float** part : {&q_columns, &dout_columns, &dq_columns}) {
      *part = p;
      p += size * kBlock;
    }
    for (float** part : {&q_rows, &dout_rows, &key_rows, &value_rows}) {
      *part = p;
      p += kBlock * padded(size);
    }
    s = p;
    ds = p + kBlock * kBlock;
  }

  int64_t row_blocks() const { return (tokens * group + kBlock - 1) / kBlock; }
  int64_t key_blocks() const { return (tokens + kBlock - 1) / kBlock; }
  AttentionRows rows(int64_t block) const {
    return {.first_row = block * kBlock,
            .count = std::min(kBlock, tokens * group - block * kBlock),
            .group = group,
            .position = 0,
            .window = window};
  }
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// pᵀ and dsᵀ of one vector of rows, in place of sᵀ and dpᵀ.
HWY_INLINE void softmax_backward(int64_t count, const float* lse, const float* mean, float* s,
                                 float* ds) {
  const auto log_sum = hn::LoadU(kFloat, lse), subtract = hn::LoadU(kFloat, mean);
  for (int64_t j = 0; j < count; ++j) {
    const auto p = exp(hn::Sub(hn::LoadU(kFloat, s + j * kBlock), log_sum));
    const auto d = hn::Sub(hn::LoadU(kFloat, ds + j * kBlock), subtract);
    hn::StoreU(p, kFloat, s + j * kBlock);
    hn::StoreU(hn::Mul(p, d), kFloat, ds + j * kBlock);
  }
}

/// A row that sees one key alone gives it the weight 1 whatever the logit: its dsᵀ is 0 exactly, where the difference of
/// two roundings would be left.
HWY_INLINE void clear_lone_keys(const AttentionRows& rows, int64_t count, float* ds) {
  for (int64_t i = 0; i < rows.count; ++i) {
    if (rows.first_key(i) != rows.last_key(i)) continue;
    for (int64_t j = 0; j < count; ++j) ds[j * kBlock + i] = 0.0f;
  }
}

/// One block of rows against the keys [begin, end) that it sees; dq is written where `with_dq`, dk and dv accumulate
/// where `with_keys`.
void attend_backward(const BackwardTask& task, const AttentionRows& rows, int64_t begin,
                     int64_t end, bool with_dq, bool with_keys) {
  const int64_t d = task.size, wide = padded(d), lanes = static_cast<int64_t>(float_lanes());
  const int64_t width = (rows.count + lanes - 1) / lanes * lanes;
  alignas(64) float lse[kBlock] = {}, mean[kBlock] = {};
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t t = rows.query(i), column = rows.head(i) * d;
    float *q = task.q_rows + i * wide, *dout = task.dout_rows + i * wide;
    copy_row(task.queries.from(t * task.query_stride + column), d, task.scale, q);
    copy_row(task.dout.from(t * task.dout_stride + column), d, 1.0f, dout);
    const FloatRow out = task.out.from(t * task.out_stride + column);
    auto sum = hn::Zero(kFloat);
    for_vectors(d, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
      sum = hn::MulAdd(load(dout, c, n), load(out, c, n), sum);
    });
    mean[i] = sum_of(sum);
    lse[i] = task.lse[t * task.lse_stride + rows.head(i)];
  }
  transpose_block(task.q_rows, wide, rows.count, d, task.q_columns);
  transpose_block(task.dout_rows, wide, rows.count, d, task.dout_columns);
  if (with_dq) std::fill(task.dq_columns, task.dq_columns + d * kBlock, 0.0f);

  end = std::min(end, rows.last_key(rows.count - 1) + 1);
  begin = std::max(begin, rows.first_key(0) / kBlock * kBlock);
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const FloatBlock k = float_block(task.keys.from(first * task.key_stride), task.key_stride,
                                     count, d, task.key_rows);
    const FloatBlock v = float_block(task.values.from(first * task.value_stride), task.value_stride,
                                     count, d, task.value_rows);
    Product logits{.a = k.data,
                   .a_row = k.row,
                   .a_step = 1,
                   .b = task.q_columns,
                   .b_row = kBlock,
                   .c = task.s,
                   .c_row = kBlock,
                   .m = count,
                   .n = width,
                   .k = d,
                   .accumulate = false};
    product(logits);
    if (needs_mask(rows, first, count)) mask(rows, first, count, task.s);
    logits.a = v.data, logits.a_row = v.row, logits.b = task.dout_columns, logits.c = task.ds;
    product(logits);
    for (int64_t i = 0; i < width; i += lanes) {
      softmax_backward(count, lse + i, mean + i, task.s + i, task.ds + i);
    }
    if (rows.first_key(0) == rows.last_key(0)) clear_lone_keys(rows, count, task.ds);
    if (with_dq) {
      product({.a = k.data,
               .a_row = 1,
               .a_step = k.row,
               .b = task.ds,
               .b_row = kBlock,
               .c = task.dq_columns,
               .c_row = kBlock,
               .m = d,
               .n = width,
               .k = count,
               .accumulate = true});
    }
    if (!with_keys) continue;
    product({.a = task.s,
             .a_row = kBlock,
             .a_step = 1,
             .b = task.dout_rows,
             .b_row = wide,
             .c = task.dv + first * task.dv_stride,
             .c_row = task.dv_stride,
             .m = count,
             .n = d,
             .k = rows.count,
             .accumulate = true});
    product({.a = task.ds,
             .a_row = kBlock,
             .a_step = 1,
             .b = task.q_rows,
             .b_row = wide,
             .c = task.dk + first * task.dk_stride,
             .c_row = task.dk_stride,
             .m = count,
             .n = d,
             .k = rows.count,
             .accumulate = true});
  }
  if (!with_dq) return;
  for (int64_t i = 0; i < rows.count; ++i) {
    float* dq = task.dq + rows.query(i) * task.dq_stride + rows.head(i) * d;
    for (int64_t c = 0; c < d; ++c) dq[c] = task.dq_columns[c * kBlock + i] * task.scale;
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(attend_backward);

/// Segments longer than this are cut into blocks of rows (for dq) and of keys (for dk and dv) that run side by side, at
/// the price of computing the probabilities twice; shorter ones are one task a key head.
constexpr int64_t kLongSegment = 2048;

void clear_rows(float* rows, int64_t stride, int64_t count, int64_t size) {
  for (int64_t j = 0; j < count; ++j) std::fill_n(rows + j * stride, size, 0.0f);
}

}  // namespace

void attention_backward(const Context& ctx, const Tensor& dout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, Segments segments,
                        const AttentionShape& shape, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const ArenaScope scope(ctx.scratch());
  const int64_t d = shape.heads.size, key_heads = shape.heads.key;
  const int64_t group = shape.heads.query / key_heads;
  const Tensor memory =
      ctx.scratch().tensor(DType::kF32, {ctx.threads().count(), BackwardTask::floats(d)});
  BlockList list(ctx.scratch(), q.rows());
  if (ctx.planning()) return;
  const FloatRows queries(q), keys(k), values(v), result(out), d_result(dout);
  const auto task_of = [&](int64_t segment, int64_t key_head) {
    const int64_t begin = segments[segment], head = key_head * group;
    const int64_t column = head * d, key_column = key_head * d;
    return BackwardTask{.queries = queries.at(begin, column),
                        .out = result.at(begin, column),
                        .dout = d_result.at(begin, column),
                        .lse = lse.row<float>(begin) + head,
                        .dq = dq.row<float>(begin) + column,
                        .keys = keys.at(begin, key_column),
                        .values = values.at(begin, key_column),
                        .dk = dk.row<float>(begin) + key_column,
                        .dv = dv.row<float>(begin) + key_column,
                        .query_stride = q.row_stride(),
                        .out_stride = out.row_stride(),
                        .dout_stride = dout.row_stride(),
                        .lse_stride = lse.row_stride(),
                        .dq_stride = dq.row_stride(),
                        .key_stride = k.row_stride(),
                        .value_stride = v.row_stride(),
                        .dk_stride = dk.row_stride(),
                        .dv_stride = dv.row_stride(),
                        .tokens = segments[segment + 1] - begin,
                        .group = group,
                        .window = shape.window,
                        .size = d,
                        .scale = static_cast<float>(shape.scale)};
  };
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const BackwardTask task = task_of(static_cast<int64_t>(s), 0);
    const bool is_long = task.tokens > kLongSegment;
    list.add(static_cast<int64_t>(s),
             key_heads * (is_long ? task.row_blocks() + task.key_blocks() : 1));
  }
  const auto kernel = &ATHANOR_KERNEL(attend_backward, ctx.isa());
  ctx.threads().run(list.size(), [&](int64_t number, int thread) {
    const BlockList::Place place = list[number];
    BackwardTask task = task_of(place.segment, place.block % key_heads);
    task.place(memory.row<float>(thread));
    const int64_t block = place.block / key_heads, tokens = task.tokens;
    if (tokens <= kLongSegment) {
      clear_rows(task.dk, task.dk_stride, tokens, d);
      clear_rows(task.dv, task.dv_stride, tokens, d);
      for (int64_t b = 0; b < task.row_blocks(); ++b) {
        kernel(task, task.rows(b), 0, tokens, true, true);
      }
      return;
    }
    if (block < task.row_blocks()) {
      kernel(task, task.rows(block), 0, tokens, true, false);
      return;
    }
    const int64_t first = (block - task.row_blocks()) * kBlock;
    const int64_t end = std::min(tokens, first + kBlock);
    clear_rows(task.dk + first * task.dk_stride, task.dk_stride, end - first, d);
    clear_rows(task.dv + first * task.dv_stride, task.dv_stride, end - first, d);
    for (int64_t b = first * group / kBlock; b < task.row_blocks(); ++b) {
      const AttentionRows rows = task.rows(b);
      if (rows.first_key(0) >= end) break;
      kernel(task, rows, first, end, false, true);
    }
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
