// The blocked bf16 product for a tile unit (AMX): 2×2 tiles of 16×16 sums. The unit is a template
// parameter, so that the tests run this very code on a software model of it. See
// matrix_vector_inl.h for the unnamed namespace.
#pragma once

#include "ops/cpu/matrix_pack_inl.h"

namespace athanor::ops::cpu {
namespace {

// `Tiles` supplies eight tiles of 16 rows of 64 bytes:
//   configure(), release()                 around any use on a thread
//   zero<t>(), load<t>(from), store<t>(to)  tile t, 1024 contiguous bytes
//   multiply_add<c, a, b>()                c += a · b, TDPBF16PS
// Tiles 0…3 hold sums, 4 and 5 the left factor, 6 and 7 the right one.

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileLines = 16;  // a tile is 16 lines of a panel as they lie: a depth of 32
constexpr int64_t kTileBytes = 1024;
/// Depth of 512 at a time: two panels of that are 32 KiB and stay in the first-level cache while
/// all rows pass; sums of longer products are parked in scratch.
constexpr int64_t kTileLinesAtOnce = 256;

struct TileScratch {
  std::byte* left;   // [row tiles][depth tiles] tiles
  std::byte* right;  // [2] tiles: the panels' last lines, padded with zeros
  std::byte* sums;   // [panels][row tiles] tiles, or [4]
  int64_t bytes;
};

inline TileScratch tile_scratch(std::byte* base, int64_t rows, int64_t columns, int64_t lines) {
  const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows;
  const int64_t depth = (smaller(lines, kTileLinesAtOnce) + kTileLines - 1) / kTileLines;
  const int64_t left = row_tiles * depth * kTileBytes;
  const int64_t parked = lines > kTileLinesAtOnce ? row_tiles * panels_of(columns) : 0;
  const int64_t sums = (parked < 4 ? 4 : parked) * kTileBytes;
  return {base, base + left, base + left + 2 * kTileBytes, left + 2 * kTileBytes + sums};
}

inline size_t tile_scratch_bytes(int64_t rows, int64_t columns, int64_t lines) {
  return static_cast<size_t>(tile_scratch(nullptr, rows, columns, lines).bytes);
}

/// Rows [0, rows) and lines [line, line + lines) of the left factor as tiles; what lies outside it
/// becomes zero.
inline void fill_left_tiles(const MatrixBlock& block, int64_t line, int64_t lines,
                            std::byte* tiles) {
  const int64_t depth = (lines + kTileLines - 1) / kTileLines;
  for (int64_t first = 0; first < block.rows; first += kTileRows) {
    const int64_t rows = smaller(kTileRows, block.rows - first);
    for (int64_t d = 0; d < depth; ++d, tiles += kTileBytes) {
      const int64_t start = line + d * kTileLines;
      const int64_t count = smaller(kTileLines, line + lines - start);
      if (block.a_panels) {
        // The panel's padding is zero, so all 16 lanes may be turned.
        alignas(64) std::byte words[kTileBytes] = {};
        std::memcpy(words, block.a + first / kPanelColumns * block.a_stride + start * kLineBytes,
                    static_cast<size_t>(count * kLineBytes));
        turn_words(words, tiles);
      } else {
        if (rows < kTileRows || count < kTileLines) std::memset(tiles, 0, kTileBytes);
        const std::byte* from = block.a + first * block.a_stride + start * 4;
        for (int64_t r = 0; r < rows; ++r) {
          std::memcpy(tiles + r * kLineBytes, from + r * block.a_stride,
                      static_cast<size_t>(count) * 4);
        }
      }
    }
  }
}

/// Products of `lines` lines for kRows×kPanels tiles. `tail`: the last lines do not fill a tile,
/// take them from `right`.
template <class Tiles, int kRows, int kPanels>
void tile_product(const std::byte* left, int64_t left_stride, const std::byte* b, int64_t b_stride,
                  int64_t lines, const std::byte* right, std::byte* sums, int64_t sums_stride,
                  bool first) {
  const auto sums_of = [&](int r, int p) { return sums + p * sums_stride + r * kTileBytes; };
  if (first) {
    Tiles::template zero<0>();
    if constexpr (kPanels == 2) Tiles::template zero<1>();
    if constexpr (kRows == 2) Tiles::template zero<2>();
    if constexpr (kRows == 2 && kPanels == 2) Tiles::template zero<3>();
  } else {
    Tiles::template load<0>(sums_of(0, 0));
    if constexpr (kPanels == 2) Tiles::template load<1>(sums_of(0, 1));
    if constexpr (kRows == 2) Tiles::template load<2>(sums_of(1, 0));
    if constexpr (kRows == 2 && kPanels == 2) Tiles::template load<3>(sums_of(1, 1));
  }
  for (int64_t line = 0; line < lines; line += kTileLines, left += kTileBytes) {
    const bool tail = line + kTileLines > lines;
    Tiles::template load<4>(left);
    Tiles::template load<6>(tail ? right : b + line * kLineBytes);
    Tiles::template multiply_add<0, 4, 6>();
    if constexpr (kPanels == 2) {
      Tiles::template load<7>(tail ? right + kTileBytes : b + b_stride + line * kLineBytes);
      Tiles::template multiply_add<1, 4, 7>();
    }
    if constexpr (kRows == 2) {
      Tiles::template load<5>(left + left_stride);
      Tiles::template multiply_add<2, 5, 6>();
    }
    if constexpr (kRows == 2 && kPanels == 2) Tiles::template multiply_add<3, 5, 7>();
  }
  Tiles::template store<0>(sums_of(0, 0));
  if constexpr (kPanels == 2) Tiles::template store<1>(sums_of(0, 1));
  if constexpr (kRows == 2) Tiles::template store<2>(sums_of(1, 0));
  if constexpr (kRows == 2 && kPanels == 2) Tiles::template store<3>(sums_of(1, 1));
}

template <class Tiles, class Ops>
void multiply_tiles(const MatrixBlock& block) {
  const TileScratch scratch = tile_scratch(block.scratch, block.rows, block.columns, block.lines);
  const int64_t panels = panels_of(block.columns);
  const int64_t row_tiles = (block.rows + kTileRows - 1) / kTileRows;
  const bool parked = block.lines > kTileLinesAtOnce;
  Tiles::configure();
  for (int64_t line = 0; line < block.lines; line += kTileLinesAtOnce) {
    const int64_t lines = smaller(kTileLinesAtOnce, block.lines - line);
    const int64_t left_stride = (lines + kTileLines - 1) / kTileLines * kTileBytes;
    const bool last = line + lines == block.lines;
    fill_left_tiles(block, line, lines, scratch.left);
    for (int64_t panel = 0; panel < panels; panel += 2) {
      const int64_t across = smaller(2, panels - panel);
      const std::byte* b = block.b + panel * block.b_stride + line * kLineBytes;
      const int64_t rest = lines % kTileLines;
      for (int64_t p = 0; rest > 0 && p < across; ++p) {
        std::byte* padded = scratch.right + p * kTileBytes;
        std::memset(padded, 0, kTileBytes);
        std::memcpy(padded, b + p * block.b_stride + (lines - rest) * kLineBytes,
                    static_cast<size_t>(rest * kLineBytes));
      }
      for (int64_t r = 0; r < row_tiles; r += 2) {
        const int64_t down = smaller(2, row_tiles - r);
        std::byte* sums =
            parked ? scratch.sums + (panel * row_tiles + r) * kTileBytes : scratch.sums;
        const int64_t sums_stride = (parked ? row_tiles : 2) * kTileBytes;
        const auto product =
            down == 2 ? (across == 2 ? tile_product<Tiles, 2, 2> : tile_product<Tiles, 2, 1>)
                      : (across == 2 ? tile_product<Tiles, 1, 2> : tile_product<Tiles, 1, 1>);
        product(scratch.left + r * left_stride, left_stride, b, block.b_stride, lines,
                scratch.right, sums, sums_stride, line == 0);
        if (!last) continue;
        for (int64_t p = 0; p < across; ++p) {
          for (int64_t d = 0; d < down; ++d) {
            const int64_t row = (r + d) * kTileRows;
            finish<Ops>(block, row, smaller(kTileRows, block.rows - row),
                        (panel + p) * kPanelColumns, 1,
                        reinterpret_cast<const float*>(sums + p * sums_stride + d * kTileBytes));
          }
        }
      }
    }
  }
  Tiles::release();
}

/// Multiply-adds of tiles that stay where they are.
template <class Tiles>
void spin_tiles(int64_t repeats) {
  Tiles::configure();
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  Tiles::template zero<4>();
  Tiles::template zero<5>();
  Tiles::template zero<6>();
  Tiles::template zero<7>();
  for (int64_t i = 0; i < repeats; ++i) {
    Tiles::template multiply_add<0, 4, 6>();
    Tiles::template multiply_add<1, 4, 7>();
    Tiles::template multiply_add<2, 5, 6>();
    Tiles::template multiply_add<3, 5, 7>();
  }
  Tiles::release();
}

/// The table entry of a tile kernel; `Ops` carries finished sums to y (see finish).
template <class Tiles, class Ops>
constexpr MatrixKernel tile_kernel(const char* name, const char* why) {
  return {.name = name,
          .why = why,
          .compute = DType::kBF16,
          .row_block = 128,
          .column_block = 512,
          .scratch_bytes = tile_scratch_bytes,
          .multiply = multiply_tiles<Tiles, Ops>,
          .pack_rows = pack_rows<Ops, uint16_t>,
          .pack_columns = pack_columns<Ops, uint16_t>,
          .convert_row = convert_row<Ops, uint16_t>,
          .spin_registers = spin_tiles<Tiles>,
          .register_flops = 4.0 * 2 * kTileRows * kPanelColumns * 2 * kTileLines};
}

}  // namespace
}  // namespace athanor::ops::cpu
