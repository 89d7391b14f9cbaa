// What the forward and the backward kernels of attention share. Once for each of Highway's targets; include after
// hwy/foreach_target.h.
#if defined(ATHANOR_OPS_CPU_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATHANOR_OPS_CPU_ATTENTION_INL_H
#undef ATHANOR_OPS_CPU_ATTENTION_INL_H
#else
#define ATHANOR_OPS_CPU_ATTENTION_INL_H
#endif

#include <limits>

#include "ops/cpu/attention.h"
#include "ops/cpu/product_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// to[i] = factor · from row i, `size` elements, padded with zeros to padded(size).
HWY_INLINE void copy_row(FloatRow from, int64_t size, float factor, float* to) {
  for_vectors(size, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(from, c, n), splat(factor)), to, c, n);
  });
  for (int64_t c = size; c < padded(size); ++c) to[c] = 0.0f;
}

/// Keys or values [first, first + count) of one head as f32 rows: in place where they are f32, else converted.
struct FloatBlock {
  const float* data;
  int64_t row;
};
HWY_INLINE FloatBlock float_block(FloatRow first, int64_t stride, int64_t count, int64_t size,
                                  float* copy) {
  if (!first.bf16) return {reinterpret_cast<const float*>(first.data), stride};
  for (int64_t j = 0; j < count; ++j) {
    const auto* from = reinterpret_cast<const uint16_t*>(first.data) + j * stride;
    for_vectors(size, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
      store(load(from, c, n), copy + j * padded(size), c, n);
    });
  }
  return {copy, padded(size)};
}

/// to [size][kBlock], to[c][i] = from[i][c] for `count` rows; lanes past them, up to a whole vector, are 0.
HWY_INLINE void transpose_block(const float* from, int64_t stride, int64_t count, int64_t size,
                                float* to) {
  const int64_t used = padded(count);
  for (int64_t c = 0; c < size; ++c) {
    float* column = to + c * kBlock;
    for (int64_t i = 0; i < count; ++i) column[i] = from[i * stride + c];
    for (int64_t i = count; i < used; ++i) column[i] = 0.0f;
  }
}

/// True when some row of the block does not see some key of [first, first + count).
HWY_INLINE bool needs_mask(const AttentionRows& rows, int64_t first, int64_t count) {
  return rows.last_key(0) < first + count - 1 || rows.first_key(rows.count - 1) > first;
}

/// The logits sᵀ [count][row] that a row does not see become −inf.
HWY_INLINE void mask(const AttentionRows& rows, int64_t first, int64_t count, float* s) {
  const auto hidden = splat(-std::numeric_limits<float>::infinity());
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  alignas(64) int32_t first_keys[kBlock], last_keys[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t r = i < rows.count ? i : rows.count - 1;
    first_keys[i] = static_cast<int32_t>(rows.first_key(r) - first);
    last_keys[i] = static_cast<int32_t>(rows.last_key(r) - first);
  }
  for (int64_t i = 0; i < rows.count; i += lanes) {
    const auto from = hn::Load(kSigned, first_keys + i), to = hn::Load(kSigned, last_keys + i);
    for (int64_t j = 0; j < count; ++j) {
      const auto key = hn::Set(kSigned, static_cast<int32_t>(j));
      const auto seen = hn::Not(hn::Or(hn::Gt(from, key), hn::Gt(key, to)));
      float* place = s + j * kBlock + i;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(kFloat, seen), hn::LoadU(kFloat, place), hidden),
                 kFloat, place);
    }
  }
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
