// What a family of matrix kernels offers to the driver (matrix_driver.h), which knows shapes,
// threads and scratch.
//
// Every kernel multiplies a left factor by packed panels (PackedMatrix) in "lines" of 64 bytes: 16
// columns by one f32 or by one pair of bf16. The left factor advances by 4 bytes (one f32, one pair
// of bf16) for each line, so that bf16 and f32 share all addressing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/context.h"

namespace athanor::ops::cpu {

constexpr int64_t kPanelColumns = 16;
constexpr int64_t kLineBytes = 64;

/// Lines of a panel of depth k: what a product runs over. A packed panel holds k rounded up to 2
/// (see PackedMatrix).
constexpr int64_t lines_of(DType compute, int64_t k) {
  return compute == DType::kBF16 ? (k + 1) / 2 : k;
}
constexpr int64_t panel_bytes(DType compute, int64_t k) {
  const int64_t padded = (k + 1) / 2 * 2;
  return padded * kPanelColumns * static_cast<int64_t>(size_of(compute));
}
constexpr int64_t panels_of(int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}

/// y = alpha · A · B (+ bias) + beta · y for a whole product or a part of it. beta = 0 leaves y
/// unread.
struct MatrixBlock {
  const std::byte* a = nullptr;
  /// Rows as they lie: bytes from one row to the next; panels: bytes from one panel of 16 rows to
  /// the next.
  int64_t a_stride = 0;
  /// A lies in panels, transposed, as a right-hand side does: what packing the tokens of dy gives.
  bool a_panels = false;
  const std::byte* b = nullptr;
  int64_t b_stride = 0;  ///< bytes from one panel of 16 columns to the next
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t lines = 0;
  std::byte* y = nullptr;
  DType y_dtype = DType::kF32;  ///< f32 or bf16
  int64_t y_stride = 0;         ///< elements
  const float* bias = nullptr;  ///< [columns]
  float alpha = 1.0F;
  float beta = 0.0F;
  const float* z = nullptr;  ///< usually y itself
  int64_t z_stride = 0;      ///< elements
  std::byte* scratch =
      nullptr;  ///< MatrixKernel::scratch_bytes(rows, columns, lines), 64-byte aligned
};

/// f32 or bf16 rows on their way into panels, converted to the kernel's dtype.
struct PackBlock {
  const std::byte* from = nullptr;
  DType from_dtype = DType::kF32;
  int64_t from_stride = 0;  ///< elements
  int64_t rows = 0;
  int64_t columns = 0;
  std::byte* to = nullptr;  ///< first line of the first panel
  int64_t to_stride = 0;    ///< bytes from panel to panel
};

struct MatrixKernel {
  const char* name;
  const char* why;  ///< for ATHANOR_VERBOSE=kernels
  DType compute;    ///< of both factors: f32 or bf16
  /// One task computes at most this block. Rows are a multiple of 16; columns of 16.
  int64_t row_block;
  int64_t column_block;
  /// Bytes of scratch for a block; never less for a larger one.
  size_t (*scratch_bytes)(int64_t rows, int64_t columns, int64_t lines);
  void (*multiply)(const MatrixBlock& block);
  /// Rows of `from` become the panels' columns (16 rows a panel, the last padded with zeros).
  void (*pack_rows)(const PackBlock& block);
  /// Columns of `from` stay columns; its rows are the depth, padded to 2 with zeros.
  void (*pack_columns)(const PackBlock& block);
  /// One row of `count` elements to the kernel's dtype, followed by zeros up to `padded` elements.
  void (*convert_row)(const std::byte* from, DType from_dtype, std::byte* to, int64_t count,
                      int64_t padded);
  /// Multiply-adds from registers, `repeats` times `register_flops`.
  void (*spin_registers)(int64_t repeats);
  double register_flops;
};

/// The kernel of `isa` for products in `compute`, f32 or bf16; kReference has none: its products
/// are the plain twins.
const MatrixKernel& matrix_kernel(Isa isa, DType compute);

}  // namespace athanor::ops::cpu
