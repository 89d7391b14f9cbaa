// Packing, shared by all families in the way of matrix_vector_inl.h: plain loops over 16 columns,
// which the compiler vectorises with the including file's instruction set.
#pragma once

#include "ops/cpu/matrix_vector_inl.h"

namespace athanor::ops::cpu {
namespace {

// From and To are float, or uint16_t for bf16; Ops is the family's (see matrix_vector_inl.h).

inline void convert(float from, float& to) { to = from; }
inline void convert(uint16_t from, uint16_t& to) { to = from; }
inline void convert(float from, uint16_t& to) { to = bf16_bits(from); }
inline void convert(uint16_t from, float& to) { to = float_of_bf16(from); }

/// Sixteen elements; rounding to bf16, the costly one, is the family's own.
template <class Ops, class From, class To>
void convert_sixteen(const From* from, To* to) {
  if constexpr (sizeof(From) > sizeof(To)) {
    Ops::store_bf16(to, Ops::load(from));
  } else {
    for (int i = 0; i < 16; ++i) convert(from[i], to[i]);
  }
}

template <class Ops, class From, class To>
void convert_row_as(const std::byte* from, std::byte* to, int64_t count, int64_t padded) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) convert_sixteen<Ops>(source + i, target + i);
  for (; i < count; ++i) convert(source[i], target[i]);
  for (; i < padded; ++i) target[i] = To{};
}

template <class Ops, class To>
void convert_row(const std::byte* from, DType from_dtype, std::byte* to, int64_t count,
                 int64_t padded) {
  if (from_dtype == DType::kBF16) {
    convert_row_as<Ops, uint16_t, To>(from, to, count, padded);
  } else {
    convert_row_as<Ops, float, To>(from, to, count, padded);
  }
}

/// One line of bf16 from 16 columns of row `even` and of row `odd`, or two lines of f32.
template <class Ops, class From, class To>
void pack_pair(const From* even, const From* odd, To* line) {
  if constexpr (sizeof(To) == 4) {
    convert_sixteen<Ops>(even, line);
    convert_sixteen<Ops>(odd, line + kPanelColumns);
  } else {
    uint16_t first[kPanelColumns];
    uint16_t second[kPanelColumns];
    convert_sixteen<Ops>(even, first);
    convert_sixteen<Ops>(odd, second);
    uint32_t pairs[kPanelColumns];
    for (int i = 0; i < kPanelColumns; ++i) {
      pairs[i] = first[i] | static_cast<uint32_t>(second[i]) << 16;
    }
    std::memcpy(line, pairs, sizeof pairs);
  }
}

template <class Ops, class From, class To>
void pack_columns_as(const PackBlock& block) {
  // A pair of rows fills one line of bf16 or two of f32.
  constexpr int64_t kPairBytes = sizeof(To) * 2 * kPanelColumns;
  constexpr int64_t kPanelsAtOnce = 8;  // a row is read in long runs while few lines are open
  const From zeros[kPanelColumns] = {};
  const auto* from = reinterpret_cast<const From*>(block.from);
  const int64_t whole = block.columns / kPanelColumns;
  for (int64_t start = 0; start < whole; start += kPanelsAtOnce) {
    const int64_t end = smaller(whole, start + kPanelsAtOnce);
    for (int64_t row = 0; row < block.rows; row += 2) {
      const From* even = from + row * block.from_stride;
      const bool paired = row + 1 < block.rows;
      std::byte* to = block.to + row / 2 * kPairBytes;
      for (int64_t panel = start; panel < end; ++panel) {
        const int64_t column = panel * kPanelColumns;
        pack_pair<Ops>(even + column, paired ? even + block.from_stride + column : zeros,
                       reinterpret_cast<To*>(to + panel * block.to_stride));
      }
    }
  }
  const int64_t rest = block.columns - whole * kPanelColumns;
  if (rest == 0) return;
  for (int64_t row = 0; row < block.rows; row += 2) {
    From even[kPanelColumns] = {};
    From odd[kPanelColumns] = {};
    const From* source = from + row * block.from_stride + whole * kPanelColumns;
    for (int64_t i = 0; i < rest; ++i) even[i] = source[i];
    if (row + 1 < block.rows) {
      for (int64_t i = 0; i < rest; ++i) odd[i] = source[block.from_stride + i];
    }
    pack_pair<Ops>(
        even, odd,
        reinterpret_cast<To*>(block.to + whole * block.to_stride + row / 2 * kPairBytes));
  }
}

using Word4 = uint32_t __attribute__((vector_size(16)));

/// to[i][j] = from[j][i] for 16×16 words of 4 bytes, in blocks of 4×4, which every family turns in registers.
inline void turn_words(const std::byte* from, std::byte* to) {
  for (int row = 0; row < 16; row += 4) {
    for (int column = 0; column < 16; column += 4) {
      Word4 r[4];
      for (int i = 0; i < 4; ++i)
        std::memcpy(&r[i], from + (row + i) * kLineBytes + column * 4, sizeof r[i]);
      const Word4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
      const Word4 b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
      const Word4 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
      const Word4 d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      const Word4 turned[4] = {
          __builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
          __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) {
        std::memcpy(to + (column + i) * kLineBytes + row * 4, &turned[i], sizeof turned[i]);
      }
    }
  }
}

template <class Ops, class From, class To>
void pack_rows_as(const PackBlock& block) {
  constexpr int64_t kWordElements = 4 / sizeof(To);
  constexpr int64_t kColumnsAtOnce = 16 * kWordElements;  // 16 lines
  // f32 depth is padded to 2 as well (see PackedMatrix).
  const int64_t lines = (block.columns + 1) / 2 * 2 / kWordElements;
  for (int64_t row = 0; row < block.rows; row += kPanelColumns) {
    const int64_t lanes = smaller(kPanelColumns, block.rows - row);
    std::byte* panel = block.to + row / kPanelColumns * block.to_stride;
    for (int64_t line = 0; line < lines; line += 16) {
      const int64_t column = line * kWordElements;
      const int64_t count = smaller(kColumnsAtOnce, block.columns - column);
      alignas(64) std::byte words[16 * kLineBytes];
      const bool whole = lanes == kPanelColumns && count == kColumnsAtOnce;
      if (!whole) std::memset(words, 0, sizeof words);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const From* from =
            reinterpret_cast<const From*>(block.from) + (row + lane) * block.from_stride + column;
        // Straight to where it is turned: a detour would wait for its own narrower stores.
        To* to = reinterpret_cast<To*>(words + lane * kLineBytes);
        if (whole) {
          for (int64_t i = 0; i < kColumnsAtOnce; i += 16) convert_sixteen<Ops>(from + i, to + i);
        } else {
          for (int64_t i = 0; i < count; ++i) convert(from[i], to[i]);
        }
      }
      if (lines - line >= 16) {
        turn_words(words, panel + line * kLineBytes);
      } else {
        alignas(64) std::byte last[16 * kLineBytes];
        turn_words(words, last);
        std::memcpy(panel + line * kLineBytes, last,
                    static_cast<size_t>((lines - line) * kLineBytes));
      }
    }
  }
}

template <class Ops, class To>
void pack_columns(const PackBlock& block) {
  if (block.from_dtype == DType::kBF16) {
    pack_columns_as<Ops, uint16_t, To>(block);
  } else {
    pack_columns_as<Ops, float, To>(block);
  }
}

template <class Ops, class To>
void pack_rows(const PackBlock& block) {
  if (block.from_dtype == DType::kBF16) {
    pack_rows_as<Ops, uint16_t, To>(block);
  } else {
    pack_rows_as<Ops, float, To>(block);
  }
}

/// The table entry of a family's vector kernel, whose factors are To.
template <class Ops, class To>
constexpr MatrixKernel vector_kernel_of(const char* name, const char* why) {
  return {.name = name,
          .why = why,
          .compute = Ops::kCompute,
          .row_block = 128,
          .column_block = 256,
          .scratch_bytes = multiply_scratch<Ops>,
          .multiply = multiply<Ops>,
          .pack_rows = pack_rows<Ops, To>,
          .pack_columns = pack_columns<Ops, To>,
          .convert_row = convert_row<Ops, To>,
          .spin_registers = spin_registers<Ops>,
          .register_flops = spin_flops<Ops>()};
}

template <class Ops>
constexpr MatrixKernel vector_kernel(const char* name, const char* why) {
  if constexpr (Ops::kCompute == DType::kBF16) {
    return vector_kernel_of<Ops, uint16_t>(name, why);
  } else {
    return vector_kernel_of<Ops, float>(name, why);
  }
}

}  // namespace
}  // namespace athanor::ops::cpu
