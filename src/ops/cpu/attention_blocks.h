// What attention is cut into, forward and backward: blocks of rows and of keys laid out for the matrix kernels, and the
// memory of a thread.
#pragma once

#include <cstdint>

#include "base/threads.h"
#include "ops/context.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/matrix_kernel.h"
#include "ops/cpu/simd.h"

namespace athanor::ops::cpu {

/// Numbers the blocks of segments 0, 1, …; segment s has `blocks(s)`.
class BlockList {
 public:
  /// Takes scratch for at most `limit` segments that have blocks.
  BlockList(Arena& scratch, int64_t limit);
  /// Adds `blocks` blocks of `segment`; segments without any are left out.
  void add(int64_t segment, int64_t blocks);
  int64_t size() const { return count_ == 0 ? 0 : ends_[count_ - 1]; }

  struct Place {
    int64_t segment, block;
  };
  Place operator[](int64_t task) const;

 private:
  int64_t* segments_;
  int64_t* ends_;
  int64_t count_ = 0;
};

/// Hands out pieces of one stretch of memory, 64-byte aligned; without one (null) it only counts.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}
  std::byte* take(int64_t bytes) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return piece;
  }
  float* floats(int64_t count) { return reinterpret_cast<float*>(take(count * 4)); }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

/// The layouts of one block's operands for heads of `size` with products by `kernel`. "Act" is the kernel's dtype.
class BlockLayout {
 public:
  BlockLayout(const MatrixKernel& kernel, int64_t size) : kernel_(kernel), size_(size) {}

  const MatrixKernel& kernel() const { return kernel_; }
  DType act() const { return kernel_.compute; }
  bool bf16() const { return act() == DType::kBF16; }
  int64_t size() const { return size_; }

  /// Rows of d elements, padded to whole lines: act [kBlockRows][row_bytes].
  int64_t row_bytes() const { return lines_of(act(), size_) * 4; }
  int64_t row_elements() const { return row_bytes() / static_cast<int64_t>(size_of(act())); }
  int64_t rows_bytes() const { return kBlockRows * row_bytes(); }
  void copy_rows(const AttentionRows& rows, FloatRow from, int64_t stride, std::byte* to) const;
  /// The same as panels of 16 rows by depth d: what K and V are multiplied by.
  int64_t row_panels_bytes() const { return panels_of(kBlockRows) * panel_bytes(act(), size_); }
  void pack_rows(const std::byte* rows, int64_t count, std::byte* to) const;
  /// The same as panels of 16 columns of d by depth rows: what pᵀ and dsᵀ are multiplied by.
  int64_t column_panels_bytes() const { return panels_of(size_) * panel_bytes(act(), kBlockRows); }
  void pack_columns(const std::byte* rows, int64_t count, std::byte* to) const;

  /// Keys that a product reads as rows: in place, or through a copy where an odd depth of bf16 has to be padded.
  struct Rows {
    const std::byte* data;
    int64_t stride;  ///< bytes
  };
  int64_t key_copy_bytes() const { return bf16() && size_ % 2 != 0 ? kBlockKeys * row_bytes() : 0; }
  Rows keys(FloatRow first, int64_t count, int64_t stride, std::byte* copy) const;
  /// y [key][kBlockRows] = alpha · keys · panelsᵀ, the panels those of pack_rows.
  void multiply_keys(Rows keys, int64_t count, const std::byte* panels, int64_t width, float alpha,
                     float* y, std::byte* scratch) const;

  /// Panels of 16 rows by depth keys, p and ds as left factors.
  int64_t key_panel_stride() const { return panel_bytes(act(), kBlockKeys); }
  int64_t key_panels_bytes() const { return panels_of(kBlockRows) * key_panel_stride(); }
  /// act [kBlockKeys][kBlockRows], pᵀ and dsᵀ as left factors.
  int64_t transposed_row_bytes() const { return kBlockRows * static_cast<int64_t>(size_of(act())); }
  int64_t transposed_bytes() const { return kBlockKeys * transposed_row_bytes(); }
  /// Enough for any product of blocks.
  int64_t scratch_bytes() const;

 private:
  const MatrixKernel& kernel_;
  int64_t size_;
};

/// Scratch for one `Memory(Pieces&, const BlockLayout&)` a thread.
template <class Memory>
class ThreadMemory {
 public:
  ThreadMemory(const Context& ctx, const BlockLayout& layout) : layout_(layout) {
    Pieces count(nullptr);
    Memory(count, layout);
    stride_ = count.used();
    base_ = static_cast<std::byte*>(
        ctx.scratch().allocate(static_cast<size_t>(stride_ * ctx.threads().count())));
  }
  Memory operator[](int thread) const {
    Pieces pieces(base_ + thread * stride_);
    return Memory(pieces, layout_);
  }

 private:
  const BlockLayout& layout_;
  int64_t stride_ = 0;
  std::byte* base_ = nullptr;
};

/// K or V of one segment and key head as panels of 16 columns by depth keys.
struct PackedKeys {
  const std::byte* data = nullptr;
  int64_t stride = 0;  ///< bytes from panel to panel
};

/// K or V of all segments and key heads, packed once for all blocks of rows.
class PackedHeads {
 public:
  /// Takes scratch; segment s has `keys(s)` keys.
  PackedHeads(const Context& ctx, const BlockLayout& layout, int64_t heads, int64_t segments,
              FunctionRef<int64_t(int64_t segment)> keys);
  /// Packs rows of `stride` elements; `rows(s)` is key 0 of segment s, head 0.
  void pack(const Context& ctx, int64_t stride, FunctionRef<FloatRow(int64_t segment)> rows) const;
  PackedKeys at(int64_t segment, int64_t head) const;

 private:
  const BlockLayout& layout_;
  int64_t heads_;
  int64_t* begins_;  ///< keys before each segment, every segment padded to whole pairs
  int64_t* counts_;  ///< keys of each segment
  std::byte* data_;
  BlockList list_;
};

}  // namespace athanor::ops::cpu
