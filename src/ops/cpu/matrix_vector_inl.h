// The blocked product for vector units, shared by all families. Included by the files that name
// their instruction set; everything here is in the unnamed namespace, so that each of them has its
// own copy compiled with its own flags and no linker can hand one family's code to another. For the
// same reason nothing inline of the standard library is used.
#pragma once

#include <cstring>

#include "ops/cpu/matrix_kernel.h"

namespace athanor::ops::cpu {
namespace {

// A family supplies `Ops`:
//   Sum       16 running f32 sums
//   Left      one element of the left factor (a pair, for bf16) for all 16 columns
//   Right     one line of a panel
//   kRows     rows of a register tile: a divisor of 16
//   kPanels   panels of a register tile; kRows * kPanels sums, kPanels lines and one Left fit the registers
//   kCompute  f32 or bf16
//   zero, load, store (f32), store_bf16, add, scale, left, right, multiply_add

/// A block of panels kept in the first-level cache while all rows pass: 128 lines of 3 panels are
/// 24 KiB. Sums of longer products are parked in scratch in f32, so that this changes no bit.
constexpr int64_t kLinesAtOnce = 128;

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Bit pattern of a float rounded to bf16, as bfloat16's constructor does.
inline uint16_t bf16_bits(float value) {
  uint32_t u;
  std::memcpy(&u, &value, sizeof u);
  const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  const uint32_t quiet = (u >> 16) | 0x40U;
  return static_cast<uint16_t>((u & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

inline float float_of_bf16(uint16_t bits) {
  const uint32_t u = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &u, sizeof value);
  return value;
}

/// Carries sixteen finished sums at (row, column) of the block to y.
template <class Ops>
inline void finish_sixteen(const MatrixBlock& block, typename Ops::Sum value, int64_t row,
                           int64_t column) {
  if (block.alpha != 1.0F) value = Ops::scale(value, block.alpha);
  if (block.bias != nullptr) value = Ops::add(value, Ops::load(block.bias + column));
  if (block.beta != 0.0F) {
    value =
        Ops::add(value, Ops::scale(Ops::load(block.z + row * block.z_stride + column), block.beta));
  }
  const int64_t start = row * block.y_stride + column;
  if (block.y_dtype == DType::kF32) {
    Ops::store(reinterpret_cast<float*>(block.y) + start, value);
  } else {
    Ops::store_bf16(reinterpret_cast<uint16_t*>(block.y) + start, value);
  }
}

/// The tile's place in its block, where its sums are finished and no panel is cut off: they go to y from the registers.
struct TileEnd {
  const MatrixBlock* block = nullptr;  ///< null: the sums go to scratch
  int64_t row = 0;
  int64_t column = 0;
};

template <class Ops, bool kLeftPanels, int kRows, int kPanels>
void register_tile(const std::byte* a, int64_t a_stride, const std::byte* b, int64_t b_stride,
                   int64_t lines, float* sums, bool first, const TileEnd& end) {
  typename Ops::Sum sum[kRows][kPanels];
  const std::byte* row[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    row[r] = a + r * (kLeftPanels ? 4 : a_stride);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      sum[r][p] = first ? Ops::zero() : Ops::load(sums + (r * kPanels + p) * kPanelColumns);
    }
  }
  for (int64_t line = 0; line < lines; ++line) {
    typename Ops::Right right[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) right[p] = Ops::right(b + p * b_stride + line * kLineBytes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto left = Ops::left(row[r] + line * (kLeftPanels ? kLineBytes : 4));
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) Ops::multiply_add(sum[r][p], left, right[p]);
    }
  }
  if (end.block != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        finish_sixteen<Ops>(*end.block, sum[r][p], end.row + r, end.column + p * kPanelColumns);
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      Ops::store(sums + (r * kPanels + p) * kPanelColumns, sum[r][p]);
    }
  }
}

using RegisterTile = void (*)(const std::byte*, int64_t, const std::byte*, int64_t, int64_t, float*,
                              bool, const TileEnd&);

/// The tile of `rows` (1…kMaxRows) by `panels` (1…kMaxPanels).
template <class Ops, bool kLeftPanels, int kRows, int kPanels>
RegisterTile tile_for(int64_t rows, int64_t panels) {
  if constexpr (kPanels > 1) {
    if (panels < kPanels) return tile_for<Ops, kLeftPanels, kRows, kPanels - 1>(rows, panels);
  }
  if constexpr (kRows > 1) {
    if (rows < kRows) return tile_for<Ops, kLeftPanels, kRows - 1, kPanels>(rows, panels);
  }
  return register_tile<Ops, kLeftPanels, kRows, kPanels>;
}

/// Carries finished sums of `rows` rows and `panels` panels, at (row, column) of the block, to y.
template <class Ops>
void finish(const MatrixBlock& block, int64_t row, int64_t rows, int64_t column, int64_t panels,
            const float* sums) {
  const bool wide = block.y_dtype == DType::kF32;
  for (int64_t r = row; r < row + rows; ++r) {
    for (int64_t p = 0; p < panels; ++p, sums += kPanelColumns) {
      const int64_t at = column + p * kPanelColumns;
      const int64_t valid = smaller(kPanelColumns, block.columns - at);
      if (valid == kPanelColumns) {
        finish_sixteen<Ops>(block, Ops::load(sums), r, at);
        continue;
      }
      for (int64_t i = 0; i < valid; ++i) {
        float value = block.alpha * sums[i];
        if (block.bias != nullptr) value += block.bias[at + i];
        if (block.beta != 0.0F) value += block.beta * block.z[r * block.z_stride + at + i];
        const int64_t place = r * block.y_stride + at + i;
        if (wide) {
          reinterpret_cast<float*>(block.y)[place] = value;
        } else {
          reinterpret_cast<uint16_t*>(block.y)[place] = bf16_bits(value);
        }
      }
    }
  }
}

template <class Ops>
void multiply(const MatrixBlock& block) {
  constexpr int kRows = Ops::kRows;
  constexpr int kPanels = Ops::kPanels;
  const int64_t panels = panels_of(block.columns);
  const int64_t groups = (panels + kPanels - 1) / kPanels;
  const bool parked = block.lines > kLinesAtOnce;
  for (int64_t line = 0; line < block.lines; line += kLinesAtOnce) {
    const int64_t lines = smaller(kLinesAtOnce, block.lines - line);
    float* sums = reinterpret_cast<float*>(block.scratch);
    for (int64_t group = 0, panel = 0; group < groups; ++group) {
      // Panels are dealt evenly: 16 as 3+3+3+3+2+2, since a tile of one panel would wait for its
      // loads.
      const int64_t count = (panels - panel + groups - group - 1) / (groups - group);
      const std::byte* b = block.b + panel * block.b_stride + line * kLineBytes;
      const bool last = line + lines == block.lines;
      const bool whole = (panel + count) * kPanelColumns <= block.columns;
      for (int64_t row = 0; row < block.rows; row += kRows) {
        const int64_t rows = smaller(kRows, block.rows - row);
        const TileEnd end{last && whole ? &block : nullptr, row, panel * kPanelColumns};
        if (block.a_panels) {
          const std::byte* a = block.a + row / kPanelColumns * block.a_stride + line * kLineBytes +
                               row % kPanelColumns * 4;
          tile_for<Ops, true, kRows, kPanels>(rows, count)(a, 0, b, block.b_stride, lines, sums,
                                                           line == 0, end);
        } else {
          const std::byte* a = block.a + row * block.a_stride + line * 4;
          tile_for<Ops, false, kRows, kPanels>(rows, count)(a, block.a_stride, b, block.b_stride,
                                                            lines, sums, line == 0, end);
        }
        if (last && !whole) finish<Ops>(block, row, rows, panel * kPanelColumns, count, sums);
        if (parked) sums += rows * count * kPanelColumns;
      }
      panel += count;
    }
  }
}

template <class Ops>
size_t multiply_scratch(int64_t rows, int64_t columns, int64_t lines) {
  const int64_t tile = Ops::kRows * Ops::kPanels * kPanelColumns;
  const int64_t parked = lines > kLinesAtOnce ? rows * panels_of(columns) * kPanelColumns : 0;
  return static_cast<size_t>(tile > parked ? tile : parked) * sizeof(float);
}

/// Multiply-adds whose operands never leave the registers.
template <class Ops>
void spin_registers(int64_t repeats) {
  constexpr int kSums = Ops::kRows * Ops::kPanels;
  // What the compiler does not know it can neither compute beforehand nor find to be equal.
  alignas(64) float start[kSums][kPanelColumns] = {};
  asm volatile("" : "+m"(start));
  const auto* operand = reinterpret_cast<const std::byte*>(start);
  const auto left = Ops::left(operand);
  const auto right = Ops::right(operand);
  typename Ops::Sum sum[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) sum[i] = Ops::load(start[i]);
  for (int64_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 32
    for (auto& s : sum) Ops::multiply_add(s, left, right);
  }
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) Ops::store(start[i], sum[i]);
  asm volatile("" ::"m"(start));
}

template <class Ops>
constexpr double spin_flops() {
  const double depth = Ops::kCompute == DType::kBF16 ? 2 : 1;
  return 2.0 * depth * Ops::kRows * Ops::kPanels * kPanelColumns;
}

}  // namespace
}  // namespace athanor::ops::cpu
