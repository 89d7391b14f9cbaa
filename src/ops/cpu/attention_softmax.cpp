#include "ops/cpu/attention_softmax.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_softmax.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

/// The logits [count][row] that a row does not see become −inf.
HWY_INLINE void mask(const AttentionRows& rows, int64_t first, int64_t count, float* s) {
  const auto hidden = splat(-std::numeric_limits<float>::infinity());
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  alignas(64) int32_t first_keys[kBlockRows], last_keys[kBlockRows];
  for (int64_t i = 0; i < rows.width(); ++i) {
    const int64_t r = i < rows.count ? i : rows.count - 1;
    first_keys[i] = static_cast<int32_t>(rows.first_key(r) - first);
    last_keys[i] = static_cast<int32_t>(rows.last_key(r) - first);
  }
  for (int64_t i = 0; i < rows.width(); i += lanes) {
    const auto from = hn::Load(kSigned, first_keys + i), to = hn::Load(kSigned, last_keys + i);
    for (int64_t j = 0; j < count; ++j) {
      const auto key = hn::Set(kSigned, static_cast<int32_t>(j));
      const auto seen = hn::Not(hn::Or(hn::Gt(from, key), hn::Gt(key, to)));
      float* place = s + j * kBlockRows + i;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(kFloat, seen), hn::LoadU(kFloat, place), hidden),
                 kFloat, place);
    }
  }
}

/// bf16 in the upper half of each lane, nearest, ties to even. A NaN that comes of bf16 factors has zeros where the
/// rounding adds, and stays one.
HWY_INLINE hn::Vec<decltype(kUnsigned)> rounded_bf16(FloatVector v) {
  const auto bits = hn::BitCast(kUnsigned, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kUnsigned, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(kUnsigned, 0x7fffu)));
}

/// Keys j and j + 1 of lanes [i, i + lanes) into the panels.
HWY_INLINE void store_pair(FloatVector even, FloatVector odd, const KeyPanels& to, int64_t i,
                           int64_t j) {
  std::byte* panel = to.data + i / 16 * to.stride + i % 16 * 4;
  if (!to.bf16) {
    auto* line = reinterpret_cast<float*>(panel + j * 64);
    hn::StoreU(even, kFloat, line);
    hn::StoreU(odd, kFloat, line + 16);
    return;
  }
  const auto upper = hn::AndNot(hn::Set(kUnsigned, 0xffffu), rounded_bf16(odd));
  const auto pair = hn::Or(upper, hn::ShiftRight<16>(rounded_bf16(even)));
  hn::StoreU(pair, kUnsigned, reinterpret_cast<uint32_t*>(panel + j / 2 * 64));
}

void softmax(const OnlineSoftmax& block) {
  const int64_t lanes = static_cast<int64_t>(float_lanes()), count = block.count;
  if (block.rows.needs_mask(block.first, count)) mask(block.rows, block.first, count, block.s);
  const auto lowest = splat(-std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < block.rows.width(); i += lanes) {
    const float* s = block.s + i;
    const auto before = hn::LoadU(kFloat, block.largest + i);
    auto top0 = before, top1 = before;
    int64_t j = 0;
    for (; j + 2 <= count; j += 2) {
      top0 = hn::Max(top0, hn::LoadU(kFloat, s + j * kBlockRows));
      top1 = hn::Max(top1, hn::LoadU(kFloat, s + (j + 1) * kBlockRows));
    }
    if (j < count) top0 = hn::Max(top0, hn::LoadU(kFloat, s + j * kBlockRows));
    const auto top = hn::Max(top0, top1);
    // A row that has seen no key yet keeps 0 of what it has not.
    const auto base = hn::IfThenElse(hn::Eq(top, lowest), hn::Zero(kFloat), top);
    const auto factor = exp(hn::Sub(before, base));
    auto even_sum = hn::Zero(kFloat), odd_sum = hn::Zero(kFloat);
    const auto weight = [&](int64_t key) ATHANOR_INLINE_BODY {
      return exp(hn::Sub(hn::LoadU(kFloat, s + key * kBlockRows), base));
    };
    for (j = 0; j + 2 <= count; j += 2) {
      const auto even = weight(j), odd = weight(j + 1);
      even_sum = hn::Add(even_sum, even);
      odd_sum = hn::Add(odd_sum, odd);
      store_pair(even, odd, block.p, i, j);
    }
    if (j < count) {
      const auto even = weight(j);
      even_sum = hn::Add(even_sum, even);
      store_pair(even, hn::Zero(kFloat), block.p, i, j);
    }
    const auto sum =
        hn::MulAdd(hn::LoadU(kFloat, block.sum + i), factor, hn::Add(even_sum, odd_sum));
    hn::StoreU(top, kFloat, block.largest + i);
    hn::StoreU(sum, kFloat, block.sum + i);
    hn::StoreU(factor, kFloat, block.factor + i);
  }
}

/// A row that sees one key alone gives it the weight 1 whatever the logit: its dp is the mean exactly, where the
/// difference of two roundings would be left.
HWY_INLINE void settle_lone_keys(const SoftmaxBackward& block) {
  for (int64_t i = 0; i < block.rows.count; ++i) {
    if (block.rows.first_key(i) != block.rows.last_key(i)) continue;
    for (int64_t j = 0; j < block.count; ++j) block.dp[j * kBlockRows + i] = block.mean[i];
  }
}

HWY_INLINE void store_key(FloatVector v, bool bf16, std::byte* rows, int64_t j, int64_t i) {
  if (rows == nullptr) return;
  const int64_t at = j * kBlockRows + i;
  if (bf16) {
    store(v, reinterpret_cast<uint16_t*>(rows), at, float_lanes());
  } else {
    hn::StoreU(v, kFloat, reinterpret_cast<float*>(rows) + at);
  }
}

void softmax_backward(const SoftmaxBackward& block) {
  const int64_t lanes = static_cast<int64_t>(float_lanes());
  if (block.rows.needs_mask(block.first, block.count)) {
    mask(block.rows, block.first, block.count, block.s);
  }
  if (block.rows.first_key(0) == block.rows.last_key(0)) settle_lone_keys(block);
  for (int64_t i = 0; i < block.rows.width(); i += lanes) {
    const auto log_sum = hn::LoadU(kFloat, block.lse + i);
    const auto mean = hn::LoadU(kFloat, block.mean + i);
    const auto gradient = [&](int64_t j) ATHANOR_INLINE_BODY {
      const int64_t at = j * kBlockRows + i;
      const auto p = exp(hn::Sub(hn::LoadU(kFloat, block.s + at), log_sum));
      const auto ds = hn::Mul(p, hn::Sub(hn::LoadU(kFloat, block.dp + at), mean));
      store_key(p, block.bf16, block.p_keys, j, i);
      store_key(ds, block.bf16, block.ds_keys, j, i);
      return ds;
    };
    int64_t j = 0;
    for (; j + 2 <= block.count; j += 2) {
      const auto even = gradient(j), odd = gradient(j + 1);
      if (block.ds.data != nullptr) store_pair(even, odd, block.ds, i, j);
    }
    if (j < block.count) {
      const auto even = gradient(j);
      if (block.ds.data != nullptr) store_pair(even, hn::Zero(kFloat), block.ds, i, j);
    }
  }
}

void scale_rows(float* x, int64_t stride, int64_t rows, int64_t size, const float* factor) {
  for (int64_t r = 0; r < rows; ++r) {
    if (factor[r] == 1.0f) continue;  // the common case, later on
    float* row = x + r * stride;
    const auto f = splat(factor[r]);
    for_vectors(size, [&](int64_t c, size_t n)
                          ATHANOR_INLINE_BODY { store(hn::Mul(load(row, c, n), f), row, c, n); });
  }
}

void scaled_row(const float* from, int64_t size, float factor, FloatRow to) {
  for_vectors(size, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    store(hn::Mul(load(from, c, n), splat(factor)), to, c, n);
  });
}

float row_dot(FloatRow a, FloatRow b, int64_t size) {
  auto sum = hn::Zero(kFloat);
  for_vectors(size, [&](int64_t c, size_t n) ATHANOR_INLINE_BODY {
    sum = hn::MulAdd(load(a, c, n), load(b, c, n), sum);
  });
  return sum_of(sum);
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {

HWY_EXPORT(softmax);
HWY_EXPORT(softmax_backward);
HWY_EXPORT(scale_rows);
HWY_EXPORT(scaled_row);
HWY_EXPORT(row_dot);

AttentionVectorKernels attention_vector_kernels(Isa isa) {
  return {.softmax = &ATHANOR_KERNEL(softmax, isa),
          .softmax_backward = &ATHANOR_KERNEL(softmax_backward, isa),
          .scale_rows = &ATHANOR_KERNEL(scale_rows, isa),
          .scaled_row = &ATHANOR_KERNEL(scaled_row, isa),
          .row_dot = &ATHANOR_KERNEL(row_dot, isa)};
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
