#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/attention_softmax.h"

namespace athanor::ops::cpu {
namespace {

/// One segment and key head.
struct BackwardTask {
  // Query 0 of the segment, first query head of the key head.
  FloatRow queries, out, dout;
  const float* lse;
  float* dq;
  // Key 0 of the segment, this key head.
  FloatRow keys, values;
  PackedKeys packed_keys;
  float *dk, *dv;
  int64_t query_stride, out_stride, dout_stride, lse_stride, dq_stride;
  int64_t key_stride, value_stride, dk_stride, dv_stride;
  int64_t tokens, group, window;
  float scale;

  int64_t row_blocks() const { return (tokens * group + kBlockRows - 1) / kBlockRows; }
  int64_t key_blocks() const { return (tokens + kBlockKeys - 1) / kBlockKeys; }
  AttentionRows rows(int64_t block) const {
    return {.first_row = block * kBlockRows,
            .count = std::min(kBlockRows, tokens * group - block * kBlockRows),
            .group = group,
            .position = 0,
            .window = window};
  }
};

/// A thread's memory.
struct BackwardMemory {
  std::byte *q, *q_panels, *q_columns, *dout, *dout_panels, *dout_columns;
  std::byte *keys, *values;
  std::byte *p, *ds;  ///< transposed
  std::byte* ds_panels;
  std::byte* scratch;
  float *s, *dp;  ///< [kBlockKeys][kBlockRows]
  float* dq;      ///< [kBlockRows][d]
  float *lse, *mean;

  BackwardMemory(Pieces& pieces, const BlockLayout& layout)
      : q(pieces.take(layout.rows_bytes())),
        q_panels(pieces.take(layout.row_panels_bytes())),
        q_columns(pieces.take(layout.column_panels_bytes())),
        dout(pieces.take(layout.rows_bytes())),
        dout_panels(pieces.take(layout.row_panels_bytes())),
        dout_columns(pieces.take(layout.column_panels_bytes())),
        keys(layout.key_copy_bytes() == 0 ? nullptr : pieces.take(layout.key_copy_bytes())),
        values(layout.key_copy_bytes() == 0 ? nullptr : pieces.take(layout.key_copy_bytes())),
        p(pieces.take(layout.transposed_bytes())),
        ds(pieces.take(layout.transposed_bytes())),
        ds_panels(pieces.take(layout.key_panels_bytes())),
        scratch(pieces.take(layout.scratch_bytes())),
        s(pieces.floats(kBlockKeys * kBlockRows)),
        dp(pieces.floats(kBlockKeys * kBlockRows)),
        dq(pieces.floats(kBlockRows * layout.size())),
        lse(pieces.floats(kBlockRows)),
        mean(pieces.floats(kBlockRows)) {}
};

/// A gradient of `count` keys: to [key][d] += alpha · left · columns, left act [key][kBlockRows].
void add_key_gradient(const BlockLayout& layout, const std::byte* left, const std::byte* columns,
                      int64_t count, int64_t rows, float alpha, float* to, int64_t stride,
                      std::byte* scratch) {
  layout.kernel().multiply({.a = left,
                            .a_stride = layout.transposed_row_bytes(),
                            .b = columns,
                            .b_stride = panel_bytes(layout.act(), kBlockRows),
                            .rows = count,
                            .columns = layout.size(),
                            .lines = lines_of(layout.act(), rows),
                            .y = reinterpret_cast<std::byte*>(to),
                            .y_stride = stride,
                            .alpha = alpha,
                            .beta = 1.0f,
                            .z = to,
                            .z_stride = stride,
                            .scratch = scratch});
}

/// One block of rows against the keys [begin, end) that it sees; dq is written where `with_dq`, dk and dv accumulate
/// where `with_keys`.
void attend_backward(const BlockLayout& layout, const AttentionVectorKernels& vectors,
                     const BackwardTask& task, const BackwardMemory& memory,
                     const AttentionRows& rows, int64_t begin, int64_t end, bool with_dq,
                     bool with_keys) {
  const int64_t d = layout.size();
  layout.copy_rows(rows, task.queries, task.query_stride, memory.q);
  layout.copy_rows(rows, task.dout, task.dout_stride, memory.dout);
  layout.pack_rows(memory.q, rows.count, memory.q_panels);
  layout.pack_rows(memory.dout, rows.count, memory.dout_panels);
  if (with_keys) {
    layout.pack_columns(memory.q, rows.count, memory.q_columns);
    layout.pack_columns(memory.dout, rows.count, memory.dout_columns);
  }
  std::fill_n(memory.lse, kBlockRows, 0.0f);
  std::fill_n(memory.mean, kBlockRows, 0.0f);
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t t = rows.query(i), column = rows.head(i) * d;
    memory.mean[i] = vectors.row_dot(task.dout.from(t * task.dout_stride + column),
                                     task.out.from(t * task.out_stride + column), d);
    memory.lse[i] = task.lse[t * task.lse_stride + rows.head(i)];
  }

  end = std::min(end, rows.last_key(rows.count - 1) + 1);
  begin = std::max(begin, rows.first_key(0) / kBlockKeys * kBlockKeys);
  for (int64_t first = begin; first < end; first += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, end - first);
    const auto product = [&](FloatRow keys, int64_t stride, std::byte* copy,
                             const std::byte* panels, float alpha, float* y) {
      layout.multiply_keys(layout.keys(keys.from(first * stride), count, stride, copy), count,
                           panels, rows.width(), alpha, y, memory.scratch);
    };
    product(task.keys, task.key_stride, memory.keys, memory.q_panels, task.scale, memory.s);
    product(task.values, task.value_stride, memory.values, memory.dout_panels, 1.0f, memory.dp);
    vectors.softmax_backward(
        {.rows = rows,
         .first = first,
         .count = count,
         .s = memory.s,
         .dp = memory.dp,
         .lse = memory.lse,
         .mean = memory.mean,
         .p_keys = with_keys ? memory.p : nullptr,
         .ds_keys = with_keys ? memory.ds : nullptr,
         .ds = {with_dq ? memory.ds_panels : nullptr, layout.key_panel_stride(), layout.bf16()},
         .bf16 = layout.bf16()});
    if (with_dq) {
      layout.kernel().multiply(
          {.a = memory.ds_panels,
           .a_stride = layout.key_panel_stride(),
           .a_panels = true,
           .b = task.packed_keys.data + lines_of(layout.act(), first) * kLineBytes,
           .b_stride = task.packed_keys.stride,
           .rows = rows.count,
           .columns = d,
           .lines = lines_of(layout.act(), count),
           .y = reinterpret_cast<std::byte*>(memory.dq),
           .y_stride = d,
           .beta = first > begin ? 1.0f : 0.0f,
           .z = memory.dq,
           .z_stride = d,
           .scratch = memory.scratch});
    }
    if (!with_keys) continue;
    add_key_gradient(layout, memory.p, memory.dout_columns, count, rows.count, 1.0f,
                     task.dv + first * task.dv_stride, task.dv_stride, memory.scratch);
    add_key_gradient(layout, memory.ds, memory.q_columns, count, rows.count, task.scale,
                     task.dk + first * task.dk_stride, task.dk_stride, memory.scratch);
  }
  if (!with_dq) return;
  for (int64_t i = 0; i < rows.count; ++i) {
    float* dq = task.dq + rows.query(i) * task.dq_stride + rows.head(i) * d;
    vectors.scaled_row(memory.dq + i * d, d, task.scale, {reinterpret_cast<std::byte*>(dq), false});
  }
}

/// Whether each key head of each segment is one task, or is cut into blocks of rows (for dq) and of keys (for dk and
/// dv) that run side by side, at the price of computing the probabilities twice. Both give the same bits: the same
/// blocks are added in the same order.
bool whole_heads(Segments segments, int64_t key_heads, int threads) {
  double total = 0, longest = 0;
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const auto tokens = static_cast<double>(segments[s + 1] - segments[s]);
    total += tokens * tokens;
    longest = std::max(longest, tokens * tokens);
  }
  // Cut, all threads work 7/5 as long as they would on whole heads that came out even.
  const double heads = static_cast<double>(key_heads);
  return std::max(longest, total * heads / threads) <= 1.4 * total * heads / threads;
}

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
  const auto count = static_cast<int64_t>(segments.size()) - 1;
  const BlockLayout layout(matrix_kernel(ctx.isa(), q.dtype()), d);
  const ThreadMemory<BackwardMemory> memory(ctx, layout);
  const PackedHeads packed_keys(ctx, layout, key_heads, count,
                                [&](int64_t s) { return segments[s + 1] - segments[s]; });
  BlockList list(ctx.scratch(), q.rows());
  if (ctx.planning()) return;
  const FloatRows queries(q), keys(k), values(v), result(out), d_result(dout);
  packed_keys.pack(ctx, k.row_stride(), [&](int64_t s) { return keys[segments[s]]; });
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
                        .packed_keys = packed_keys.at(segment, key_head),
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
                        .scale = static_cast<float>(shape.scale)};
  };
  const bool whole = whole_heads(segments, key_heads, ctx.threads().count());
  for (int64_t s = 0; s < count; ++s) {
    const BackwardTask task = task_of(s, 0);
    list.add(s, key_heads * (whole ? 1 : task.row_blocks() + task.key_blocks()));
  }
  const AttentionVectorKernels vectors = attention_vector_kernels(ctx.isa());
  ctx.threads().run(list.size(), [&](int64_t number, int thread) {
    const BlockList::Place place = list[number];
    const BackwardTask task = task_of(place.segment, place.block % key_heads);
    const BackwardMemory own = memory[thread];
    const int64_t block = place.block / key_heads, tokens = task.tokens;
    const auto attend = [&](const AttentionRows& rows, int64_t begin, int64_t end, bool with_dq,
                            bool with_keys) {
      attend_backward(layout, vectors, task, own, rows, begin, end, with_dq, with_keys);
    };
    if (whole) {
      clear_rows(task.dk, task.dk_stride, tokens, d);
      clear_rows(task.dv, task.dv_stride, tokens, d);
      for (int64_t b = 0; b < task.row_blocks(); ++b) attend(task.rows(b), 0, tokens, true, true);
      return;
    }
    if (block < task.row_blocks()) return attend(task.rows(block), 0, tokens, true, false);
    const int64_t first = (block - task.row_blocks()) * kBlockKeys;
    const int64_t end = std::min(tokens, first + kBlockKeys);
    clear_rows(task.dk + first * task.dk_stride, task.dk_stride, end - first, d);
    clear_rows(task.dv + first * task.dv_stride, task.dv_stride, end - first, d);
    for (int64_t b = first * group / kBlockRows; b < task.row_blocks(); ++b) {
      const AttentionRows rows = task.rows(b);
      if (rows.first_key(0) >= end) break;
      attend(rows, first, end, false, true);
    }
  });
}

}  // namespace athanor::ops::cpu
