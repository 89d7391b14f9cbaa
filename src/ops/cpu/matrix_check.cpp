#include "ops/cpu/matrix_check.h"

#include <memory>
#include <new>
#include <vector>

namespace athanor::ops::cpu {

bool computes_exactly(const MatrixKernel& kernel) {
  // More than one tile each way, with remainders, and more depth than is kept in cache.
  constexpr int64_t kRows = 37;
  constexpr int64_t kColumns = 41;
  constexpr int64_t kDepth = 1044;
  const auto factor = [](int64_t i, int64_t j) {
    return static_cast<float>((i * 7 + j * 5 + i * j) % 7 - 3);
  };
  std::vector<bfloat16> x(kRows * kDepth);
  for (int64_t i = 0; i < kRows * kDepth; ++i) {
    x[static_cast<size_t>(i)] = bfloat16(factor(i / kDepth, i % kDepth));
  }
  std::vector<float> w(kColumns * kDepth);
  for (int64_t i = 0; i < kColumns * kDepth; ++i) {
    w[static_cast<size_t>(i)] = factor(i / kDepth + 3, i % kDepth);
  }
  const int64_t lines = lines_of(DType::kBF16, kDepth);
  const int64_t stride = panel_bytes(DType::kBF16, kDepth);
  constexpr std::align_val_t kLine{kLineBytes};
  const auto buffer = [&](int64_t bytes) {
    const auto free = [](std::byte* p) { ::operator delete[](p, kLine); };
    return std::unique_ptr<std::byte[], decltype(free)>(
        static_cast<std::byte*>(::operator new[](static_cast<size_t>(bytes), kLine)), free);
  };
  const auto panels = buffer(panels_of(kColumns) * stride);
  const auto scratch = buffer(static_cast<int64_t>(kernel.scratch_bytes(kRows, kColumns, lines)));
  kernel.pack_rows({.from = reinterpret_cast<const std::byte*>(w.data()),
                    .from_dtype = DType::kF32,
                    .from_stride = kDepth,
                    .rows = kColumns,
                    .columns = kDepth,
                    .to = panels.get(),
                    .to_stride = stride});
  std::vector<float> y(kRows * kColumns, -1.0F);
  kernel.multiply({.a = reinterpret_cast<const std::byte*>(x.data()),
                   .a_stride = kDepth * 2,
                   .b = panels.get(),
                   .b_stride = stride,
                   .rows = kRows,
                   .columns = kColumns,
                   .lines = lines,
                   .y = reinterpret_cast<std::byte*>(y.data()),
                   .y_stride = kColumns,
                   .scratch = scratch.get()});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) sum += factor(i, k) * factor(j + 3, k);
      if (y[static_cast<size_t>(i * kColumns + j)] != sum) return false;
    }
  }
  return true;
}

}  // namespace athanor::ops::cpu
