// A software model of the tile unit: what Intel documents of TDPBF16PS, in plain C++, so that the
// tile kernel's source runs on any CPU (Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, TDPBF16PS).
#pragma once

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "ops/cpu/matrix_portable_inl.h"
#include "ops/cpu/matrix_tiles_inl.h"

namespace athanor::ops::cpu {
// As in the kernel's own headers (see matrix_vector_inl.h).
namespace {  // NOLINT(google-build-namespaces)

class ModelTiles {
 public:
  static void configure() {
    unit().configured = true;
    for (auto& tile : unit().tile) std::memset(tile, 0, sizeof tile);
  }
  static void release() { unit().configured = false; }
  template <int kTile>
  static void zero() {
    std::memset(tile(kTile), 0, kTileBytes);
  }
  template <int kTile>
  static void load(const std::byte* from) {
    std::memcpy(tile(kTile), from, kTileBytes);
  }
  template <int kTile>
  static void store(std::byte* to) {
    std::memcpy(to, tile(kTile), kTileBytes);
  }
  /// The two halves of the pairs are summed apart and added at the end; subnormals count as zero,
  /// in and out.
  template <int kSums, int kLeft, int kRight>
  static void multiply_add() {
    float left[16][32];
    float right[16][32];
    widen(kLeft, left);
    widen(kRight, right);
    float sums[16][16];
    std::memcpy(sums, tile(kSums), sizeof sums);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 16; ++column) {
        float even = 0;
        float odd = 0;
        for (int pair = 0; pair < 16; ++pair) {
          even = flush(even + left[row][2 * pair] * right[pair][2 * column]);
          odd = flush(odd + left[row][2 * pair + 1] * right[pair][2 * column + 1]);
        }
        sums[row][column] = flush(flush(sums[row][column]) + flush(even + odd));
      }
    }
    std::memcpy(tile(kSums), sums, sizeof sums);
  }

 private:
  struct Unit {
    bool configured = false;
    std::byte tile[8][1024];
  };
  static Unit& unit() {
    thread_local Unit instance;
    return instance;
  }
  static std::byte* tile(int i) {
    if (!unit().configured)
      throw std::logic_error("a tile was used before the unit was configured");
    return unit().tile[i];
  }
  /// The product of two bf16 is exact in f32, so one rounding a step remains, as in a fused
  /// multiply-add.
  static float flush(float x) { return std::abs(x) < 0x1p-126F ? 0.0F * x : x; }
  static void widen(int i, float (&to)[16][32]) {
    uint16_t bits[16][32];
    std::memcpy(bits, tile(i), sizeof bits);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 32; ++column) {
        to[row][column] = flush(float_of_bf16(bits[row][column]));
      }
    }
  }
};

constexpr MatrixKernel kModelledAmx = tile_kernel<ModelTiles, PortableSums>("amx model", "tests");

}  // namespace
}  // namespace athanor::ops::cpu
