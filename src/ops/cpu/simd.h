// What the fast kernels share outside their vector code: which of a kernel's versions runs, and
// views of f32/bf16 rows.
//
// A fast file is compiled once for each of Highway's targets (foreach_target) and picks a version
// by Context::isa().
#pragma once

// Kernels hold vectors in arrays, which scalable targets cannot. Better targets have lower bits: those past AVX3 would
// need instructions that Isa does not ask for, and round nothing differently.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | (HWY_AVX3 - 1))

#include <cstddef>
#include <cstdint>

#include "base/tensor.h"
#include "hwy/targets.h"
#include "ops/context.h"

namespace athanor::ops::cpu {

/// The index, in a table of HWY_EXPORT, of the best compiled version that `isa` allows.
inline size_t kernel_index([[maybe_unused]] Isa isa) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
  return 0;  // one target, one entry
#else
  static const int64_t supported = hwy::SupportedTargets();
  int64_t targets = HWY_TARGETS & supported;
  if (isa < Isa::kAvx512) targets &= ~HWY_AVX3;
  if (isa < Isa::kAvx2) targets &= ~HWY_AVX2;
  hwy::ChosenTarget chosen;
  chosen.Update(targets | HWY_STATIC_TARGET);
  return chosen.GetIndex();
#endif
}

/// The version of kernel `name` (a function given to HWY_EXPORT in this file) for `isa`.
#define ATHANOR_KERNEL(name, isa) (*(HWY_DISPATCH_TABLE(name)[kernel_index(isa)]))

/// One row of f32 or bf16 elements.
struct FloatRow {
  std::byte* data = nullptr;
  bool bf16 = false;

  /// The row from element `col` on; nothing stays nothing.
  FloatRow from(int64_t col) const {
    return data == nullptr ? FloatRow{} : FloatRow{data + col * (bf16 ? 2 : 4), bf16};
  }
};

/// The rows of an f32 or bf16 tensor.
class FloatRows {
 public:
  explicit FloatRows(const Tensor& t)
      : data_(t.data()),
        element_(static_cast<int64_t>(size_of(t.dtype()))),
        row_bytes_(t.row_stride() * element_),
        bf16_(t.dtype() == DType::kBF16) {}

  FloatRow operator[](int64_t row) const { return {data_ + row * row_bytes_, bf16_}; }
  FloatRow at(int64_t row, int64_t col) const {
    return {data_ + row * row_bytes_ + col * element_, bf16_};
  }

 private:
  std::byte* data_;
  int64_t element_;
  int64_t row_bytes_;
  bool bf16_;
};

/// Rows that one task takes so that it has about 16 Ki elements: enough to pay for its start.
inline int64_t rows_per_task(int64_t cols) {
  constexpr int64_t kElements = 16384;
  return cols >= kElements ? 1 : kElements / (cols > 0 ? cols : 1);
}

/// Runs body(begin, end) over blocks of rows.
template <class Body>
void for_row_blocks(const Context& ctx, int64_t rows, int64_t block, Body body) {
  ctx.threads().run((rows + block - 1) / block, [&](int64_t task, int) {
    const int64_t begin = task * block;
    body(begin, begin + block < rows ? begin + block : rows);
  });
}

}  // namespace athanor::ops::cpu
