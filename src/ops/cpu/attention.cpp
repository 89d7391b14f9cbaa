#include "ops/cpu/attention.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/attention_softmax.h"

namespace athanor::ops::cpu {
namespace {

/// One task: a block of rows against all keys that they see.
struct ForwardTask {
  AttentionRows rows;
  FloatRow queries, out;  ///< query 0 of the segment, first head of the key head
  float* lse;             ///< likewise; null: not wanted
  FloatRow keys;          ///< key 0, this key head
  PackedKeys values;
  int64_t query_stride, out_stride, lse_stride, key_stride;
  float scale;
};

/// A thread's memory.
struct ForwardMemory {
  std::byte *q, *q_panels;
  std::byte* keys;
  std::byte* p;  ///< panels
  std::byte* scratch;
  float *s, *out;  ///< [kBlockKeys][kBlockRows], [kBlockRows][d]
  float *largest, *sum, *factor;

  ForwardMemory(Pieces& pieces, const BlockLayout& layout)
      : q(pieces.take(layout.rows_bytes())),
        q_panels(pieces.take(layout.row_panels_bytes())),
        keys(layout.key_copy_bytes() == 0 ? nullptr : pieces.take(layout.key_copy_bytes())),
        p(pieces.take(layout.key_panels_bytes())),
        scratch(pieces.take(layout.scratch_bytes())),
        s(pieces.floats(kBlockKeys * kBlockRows)),
        out(pieces.floats(kBlockRows * layout.size())),
        largest(pieces.floats(kBlockRows)),
        sum(pieces.floats(kBlockRows)),
        factor(pieces.floats(kBlockRows)) {}
};

void attend(const BlockLayout& layout, const AttentionVectorKernels& vectors,
            const ForwardTask& task, const ForwardMemory& memory) {
  const AttentionRows& rows = task.rows;
  const int64_t d = layout.size();
  layout.copy_rows(rows, task.queries, task.query_stride, memory.q);
  layout.pack_rows(memory.q, rows.count, memory.q_panels);
  std::fill_n(memory.largest, kBlockRows, -std::numeric_limits<float>::infinity());
  std::fill_n(memory.sum, kBlockRows, 0.0f);

  const int64_t end = rows.last_key(rows.count - 1) + 1;
  const int64_t begin = rows.first_key(0) / kBlockKeys * kBlockKeys;
  for (int64_t first = begin; first < end; first += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, end - first);
    const FloatRow key = task.keys.from(first * task.key_stride);
    layout.multiply_keys(layout.keys(key, count, task.key_stride, memory.keys), count,
                         memory.q_panels, rows.width(), task.scale, memory.s, memory.scratch);
    vectors.softmax({.rows = rows,
                     .first = first,
                     .count = count,
                     .s = memory.s,
                     .p = {memory.p, layout.key_panel_stride(), layout.bf16()},
                     .largest = memory.largest,
                     .sum = memory.sum,
                     .factor = memory.factor});
    if (first > begin) vectors.scale_rows(memory.out, d, rows.count, d, memory.factor);
    layout.kernel().multiply({.a = memory.p,
                              .a_stride = layout.key_panel_stride(),
                              .a_panels = true,
                              .b = task.values.data + lines_of(layout.act(), first) * kLineBytes,
                              .b_stride = task.values.stride,
                              .rows = rows.count,
                              .columns = d,
                              .lines = lines_of(layout.act(), count),
                              .y = reinterpret_cast<std::byte*>(memory.out),
                              .y_stride = d,
                              .beta = first > begin ? 1.0f : 0.0f,
                              .z = memory.out,
                              .z_stride = d,
                              .scratch = memory.scratch});
  }

  for (int64_t i = 0; i < rows.count; ++i) {
    const float sum = memory.sum[i];
    vectors.scaled_row(memory.out + i * d, d, 1.0f / sum,
                       task.out.from(rows.query(i) * task.out_stride + rows.head(i) * d));
    if (task.lse == nullptr) continue;
    task.lse[rows.query(i) * task.lse_stride + rows.head(i)] =
        static_cast<float>(memory.largest[i] + math::log(sum));
  }
}

}  // namespace

void attention(const Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
  const ArenaScope scope(ctx.scratch());
  const int64_t d = shape.heads.size, key_heads = shape.heads.key;
  const int64_t group = shape.heads.query / key_heads;
  const BlockLayout layout(matrix_kernel(ctx.isa(), q.dtype()), d);
  const ThreadMemory<ForwardMemory> memory(ctx, layout);
  const PackedHeads values(ctx, layout, key_heads, static_cast<int64_t>(segments.size()),
                           [&](int64_t s) { return segments[s].key_count; });
  BlockList list(ctx.scratch(), q.rows());
  if (ctx.planning()) return;
  const auto heads_of = [&](const void* data) {
    return FloatRow{static_cast<std::byte*>(const_cast<void*>(data)), q.dtype() == DType::kBF16};
  };
  values.pack(ctx, key_heads * d, [&](int64_t s) { return heads_of(segments[s].values); });
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t blocks = (segments[s].query_count * group + kBlockRows - 1) / kBlockRows;
    list.add(static_cast<int64_t>(s), blocks * key_heads);
  }
  const AttentionVectorKernels vectors = attention_vector_kernels(ctx.isa());
  const FloatRows queries(q), result(out);
  ctx.threads().run(list.size(), [&](int64_t number, int thread) {
    // The longest blocks are a segment's last: they come first, so that no thread ends with one.
    const BlockList::Place place = list[list.size() - 1 - number];
    const AttentionSegment& segment = segments[place.segment];
    const int64_t key_head = place.block % key_heads, block = place.block / key_heads;
    const int64_t head = key_head * group, rows = segment.query_count * group;
    attend(layout, vectors,
           {.rows = {.first_row = block * kBlockRows,
                     .count = std::min(kBlockRows, rows - block * kBlockRows),
                     .group = group,
                     .position = segment.key_count - segment.query_count,
                     .window = shape.window},
            .queries = queries.at(segment.query_begin, head * d),
            .out = result.at(segment.query_begin, head * d),
            .lse = lse.empty() ? nullptr : lse.row<float>(segment.query_begin) + head,
            .keys = heads_of(segment.keys).from(key_head * d),
            .values = values.at(place.segment, key_head),
            .query_stride = q.row_stride(),
            .out_stride = out.row_stride(),
            .lse_stride = lse.row_stride(),
            .key_stride = key_heads * d,
            .scale = static_cast<float>(shape.scale)},
           memory[thread]);
  });
}

}  // namespace athanor::ops::cpu
