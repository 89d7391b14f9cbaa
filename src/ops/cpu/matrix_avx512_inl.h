// What the AVX-512 kernels share: 16 f32 sums are one register.
#pragma once

#include <immintrin.h>

#include "ops/cpu/matrix_pack_inl.h"

namespace athanor::ops::cpu {
namespace {

struct Avx512Sums {
  using Sum = __m512;

  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Sum v) { _mm512_storeu_ps(p, v); }
  static Sum add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  static Sum scale(Sum a, float factor) { return _mm512_mul_ps(a, _mm512_set1_ps(factor)); }
  static void store_bf16(uint16_t* p, Sum v) {
    const __m512i u = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(u, 16);
    const __m512i even = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), even), 16);
    const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet)));
  }

  /// Four bytes for all columns.
  static __m512i broadcast(const std::byte* p) {
    int32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _mm512_set1_epi32(bits);
  }
};

}  // namespace
}  // namespace athanor::ops::cpu
