#include "ops/cpu/partial_sums.h"

#include <algorithm>

namespace athanor::ops::cpu {
namespace {

constexpr int64_t kColumns =
    64;  // summed side by side: a few vectors of any width, which the compiler finds

}  // namespace

PartialSums::PartialSums(Arena& scratch, int64_t rows, int64_t vectors, int64_t width)
    : blocks_(sum_blocks(rows)),
      vectors_(vectors),
      width_(width),
      data_(static_cast<float*>(
          scratch.allocate(static_cast<size_t>(blocks_ * vectors * width) * sizeof(float)))) {}

void PartialSums::add_to(const Context& ctx, int64_t v, float* to, int64_t step,
                         const float* factor) const {
  constexpr int64_t kTask = 16 * kColumns;
  ctx.threads().run((width_ + kTask - 1) / kTask, [&](int64_t task, int) {
    const int64_t task_end = std::min(width_, (task + 1) * kTask);
    for (int64_t begin = task * kTask; begin < task_end; begin += kColumns) {
      const int64_t count = std::min(kColumns, task_end - begin);
      float sums[kColumns] = {};
      for (int64_t b = 0; b < blocks_; ++b) {
        const float* partial = data_ + (b * vectors_ + v) * width_ + begin;
        for (int64_t c = 0; c < count; ++c) sums[c] += partial[c];
      }
      for (int64_t c = 0; c < count; ++c) {
        to[(begin + c) * step] += factor != nullptr ? factor[begin + c] * sums[c] : sums[c];
      }
    }
  });
}

}  // namespace athanor::ops::cpu
