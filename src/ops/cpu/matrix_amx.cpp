// Products of bf16 on Intel's tile unit.
#if defined(__x86_64__)

#include "ops/cpu/matrix_avx512_inl.h"
#include "ops/cpu/matrix_families.h"
#include "ops/cpu/matrix_tiles_inl.h"

namespace athanor::ops::cpu {
namespace {

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kAllTiles;

/// The instructions themselves. GCC 12's intrinsics do not say that they read memory; these do, by
/// their clobber, so that no store to a tile's buffer can move past the load.
struct HardwareTiles {
  static void configure() { asm volatile("ldtilecfg %0" ::"m"(kAllTiles) : "memory"); }
  static void release() { asm volatile("tilerelease" ::: "memory"); }
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const std::byte* from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(kLineBytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(std::byte* to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(kLineBytes), "i"(kTile)
                 : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  static void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

}  // namespace

constinit const MatrixKernel kMatrixAmxBf16 =
    tile_kernel<HardwareTiles, Avx512Sums>("amx 32x32", "tile products of bf16 pairs");

}  // namespace athanor::ops::cpu

#endif
