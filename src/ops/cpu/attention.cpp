#include "ops/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/attention_inl.h"

#ifndef ATHANOR_OPS_CPU_ATTENTION_TYPES
#define ATHANOR_OPS_CPU_ATTENTION_TYPES
namespace athanor::ops::cpu {

/// One task: a block of rows against all keys that they see.
struct ForwardTask {
  AttentionRows rows;
  FloatRow queries, out;  ///< query 0 of the segment, first head of the key head
  float* lse;             ///< likewise; null: not wanted
  FloatRow keys, values;  ///< key 0, this key head
  int64_t query_stride, out_stride, lse_stride, key_stride;
  int64_t size;  ///< d
  float scale;
};

/// A thread's memory.
struct ForwardScratch {
  float* q;              ///< [d][kBlock]
  float* out;            ///< [d][kBlock]
  float* s;              ///< [kBlock][kBlock]
  float *keys, *values;  ///< [kBlock][padded(d)]
  float* line;           ///< [padded(d)]

  static int64_t floats(int64_t size) {
    return 2 * size * kBlock + kBlock * kBlock + 2 * kBlock * padded(size) + padded(size);
  }
  static ForwardScratch at(float* p, int64_t size) {
    const int64_t column = size * kBlock, rows = kBlock * padded(size);
    float* s = p + 2 * column;
    float* keys = s + kBlock * kBlock;
    return {p, p + column, s, keys, keys + rows, keys + 2 * rows};
  }
};

}  // namespace athanor::ops::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// One vector of rows: takes the logits of `count` keys into the running maximum and sum, and turns them into
/// probabilities relative to that maximum. Returns the factor for what was summed before.
HWY_INLINE FloatVector online_softmax(float* s, int64_t count, float* largest, float* sum) {
  const auto before = hn::LoadU(kFloat, largest);
  auto top0 = before, top1 = before;
  int64_t j = 0;
  for (; j + 2 <= count; j += 2) {
    top0 = hn::Max(top0, hn::LoadU(kFloat, s + j * kBlock));
    top1 = hn::Max(top1, hn::LoadU(kFloat, s + (j + 1) * kBlock));
  }
  if (j < count) top0 = hn::Max(top0, hn::LoadU(kFloat, s + j * kBlock));
  const auto top = hn::Max(top0, top1);
  // A row that has seen no key yet keeps 0 of what it has not.
  const auto lowest = splat(-std::numeric_limits<float>::infinity());
  const auto base = hn::IfThenElse(hn::Eq(top, lowest), hn::Zero(kFloat), top);
  const auto factor = exp(hn::Sub(before, base));
  auto total = hn::Mul(hn::LoadU(kFloat, sum), factor);
  for (j = 0; j < count; ++j) {
    const auto p = exp(hn::Sub(hn::LoadU(kFloat, s + j * kBlock), base));
    hn::StoreU(p, kFloat, s + j * kBlock);
    total = hn::Add(total, p);
  }
  hn::StoreU(top, kFloat, largest);
  hn::StoreU(total, kFloat, sum);
  return factor;
}

void attend(const ForwardTask& task, const ForwardScratch& scratch) {
  const AttentionRows& rows = task.rows;
  const int64_t d = task.size, lanes = static_cast<int64_t>(float_lanes());
  const int64_t width = (rows.count + lanes - 1) / lanes * lanes;
  alignas(64) float largest[kBlock], sum[kBlock];
  std::fill(largest, largest + kBlock, -std::numeric_limits<float>::infinity());
  std::fill(sum, sum + kBlock, 0.0f);
  std::fill(scratch.out, scratch.out + d * kBlock, 0.0f);
  // The rows' copies lie where the keys' will.
  for (int64_t i = 0; i < rows.count; ++i) {
    copy_row(task.queries.from(rows.query(i) * task.query_stride + rows.head(i) * d), d, task.scale,
             scratch.keys + i * padded(d));
  }
  transpose_block(scratch.keys, padded(d), rows.count, d, scratch.q);

  const int64_t end = rows.last_key(rows.count - 1) + 1;
  for (int64_t first = rows.first_key(0) / kBlock * kBlock; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const auto block = [&](FloatRow keys, float* copy) HWY_ATTR {
      return float_block(keys.from(first * task.key_stride), task.key_stride, count, d, copy);
    };
    const FloatBlock k = block(task.keys, scratch.keys), v = block(task.values, scratch.values);
    product({.a = k.data,
             .a_row = k.row,
             .a_step = 1,
             .b = scratch.q,
             .b_row = kBlock,
             .c = scratch.s,
             .c_row = kBlock,
             .m = count,
             .n = width,
             .k = d,
             .accumulate = false});
    if (needs_mask(rows, first, count)) mask(rows, first, count, scratch.s);
    for (int64_t i = 0; i < width; i += lanes) {
      const auto factor = online_softmax(scratch.s + i, count, largest + i, sum + i);
      if (hn::AllTrue(kFloat, hn::Eq(factor, splat(1.0f)))) continue;  // the common case, later on
      for (int64_t c = 0; c < d; ++c) {
        float* place = scratch.out + c * kBlock + i;
        hn::StoreU(hn::Mul(hn::LoadU(kFloat, place), factor), kFloat, place);
      }
    }
    product({.a = v.data,
             .a_row = 1,
             .a_step = v.row,
             .b = scratch.s,
             .b_row = kBlock,
             .c = scratch.out,
             .c_row = kBlock,
             .m = d,
             .n = width,
             .k = count,
             .accumulate = true});
  }

  for (int64_t i = 0; i < rows.count; ++i) {
    const float inverse = 1.0f / sum[i];
    for (int64_t c = 0; c < d; ++c) scratch.line[c] = scratch.out[c * kBlock + i] * inverse;
    const FloatRow out = task.out.from(rows.query(i) * task.out_stride + rows.head(i) * d);
    for_vectors(d, [&](int64_t c, size_t n)
                       ATHANOR_INLINE_BODY { store(load(scratch.line, c, n), out, c, n); });
    if (task.lse == nullptr) continue;
    task.lse[rows.query(i) * task.lse_stride + rows.head(i)] =
        static_cast<float>(largest[i] + math::log(sum[i]));
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(attend);

}  // namespace

void attention(const Context& ctx, const Tensor& q, std::span<const AttentionSegment> segments,
               const AttentionShape& shape, const Tensor& out, const Tensor& lse) {
  const ArenaScope scope(ctx.scratch());
  const int64_t d = shape.heads.size, key_heads = shape.heads.key;
  const int64_t group = shape.heads.query / key_heads;
  const Tensor memory =
      ctx.scratch().tensor(DType::kF32, {ctx.threads().count(), ForwardScratch::floats(d)});
  BlockList list(ctx.scratch(), q.rows());
  if (ctx.planning()) return;
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t blocks = (segments[s].query_count * group + kBlock - 1) / kBlock;
    list.add(static_cast<int64_t>(s), blocks * key_heads);
  }
  const auto kernel = &ATHANOR_KERNEL(attend, ctx.isa());
  const bool bf16 = q.dtype() == DType::kBF16;
  const FloatRows queries(q), result(out);
  ctx.threads().run(list.size(), [&](int64_t number, int thread) {
    const BlockList::Place place = list[number];
    const AttentionSegment& segment = segments[place.segment];
    const int64_t key_head = place.block % key_heads, block = place.block / key_heads;
    const int64_t head = key_head * group, rows = segment.query_count * group;
    const auto keys = [&](const void* data) {
      auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
      return FloatRow{bytes, bf16}.from(key_head * d);
    };
    kernel({.rows = {.first_row = block * kBlock,
                     .count = std::min(kBlock, rows - block * kBlock),
                     .group = group,
                     .position = segment.key_count - segment.query_count,
                     .window = shape.window},
            .queries = queries.at(segment.query_begin, head * d),
            .out = result.at(segment.query_begin, head * d),
            .lse = lse.empty() ? nullptr : lse.row<float>(segment.query_begin) + head,
            .keys = keys(segment.keys),
            .values = keys(segment.values),
            .query_stride = q.row_stride(),
            .out_stride = out.row_stride(),
            .lse_stride = lse.row_stride(),
            .key_stride = key_heads * d,
            .size = d,
            .scale = static_cast<float>(shape.scale)},
           ForwardScratch::at(memory.row<float>(thread), d));
  });
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
