#include "ops/cpu/attention_blocks.h"

#include <algorithm>

namespace athanor::ops::cpu {
namespace {

/// Keys that one task packs.
constexpr int64_t kPackKeys = 256;

int64_t element_bytes(const FloatRow& row) { return row.bf16 ? 2 : 4; }
DType dtype_of_row(const FloatRow& row) { return row.bf16 ? DType::kBF16 : DType::kF32; }

}  // namespace

BlockList::BlockList(Arena& scratch, int64_t limit)
    : segments_(scratch.tensor(DType::kI64, {limit}).as<int64_t>()),
      ends_(scratch.tensor(DType::kI64, {limit}).as<int64_t>()) {}

void BlockList::add(int64_t segment, int64_t blocks) {
  if (blocks == 0) return;
  const int64_t before = size();
  segments_[count_] = segment;
  ends_[count_++] = before + blocks;
}

BlockList::Place BlockList::operator[](int64_t task) const {
  const int64_t i = std::upper_bound(ends_, ends_ + count_, task) - ends_;
  return {segments_[i], task - (i == 0 ? 0 : ends_[i - 1])};
}

void BlockLayout::copy_rows(const AttentionRows& rows, FloatRow from, int64_t stride,
                            std::byte* to) const {
  for (int64_t i = 0; i < rows.count; ++i) {
    const FloatRow row = from.from(rows.query(i) * stride + rows.head(i) * size_);
    kernel_.convert_row(row.data, dtype_of_row(row), to + i * row_bytes(), size_, row_elements());
  }
}

void BlockLayout::pack_rows(const std::byte* rows, int64_t count, std::byte* to) const {
  kernel_.pack_rows({.from = rows,
                     .from_dtype = act(),
                     .from_stride = row_elements(),
                     .rows = count,
                     .columns = size_,
                     .to = to,
                     .to_stride = panel_bytes(act(), size_)});
}

void BlockLayout::pack_columns(const std::byte* rows, int64_t count, std::byte* to) const {
  kernel_.pack_columns({.from = rows,
                        .from_dtype = act(),
                        .from_stride = row_elements(),
                        .rows = count,
                        .columns = size_,
                        .to = to,
                        .to_stride = panel_bytes(act(), kBlockRows)});
}

BlockLayout::Rows BlockLayout::keys(FloatRow first, int64_t count, int64_t stride,
                                    std::byte* copy) const {
  const int64_t from_bytes = stride * element_bytes(first);
  if (copy == nullptr) return {first.data, from_bytes};
  for (int64_t j = 0; j < count; ++j) {
    kernel_.convert_row(first.data + j * from_bytes, act(), copy + j * row_bytes(), size_,
                        row_elements());
  }
  return {copy, row_bytes()};
}

void BlockLayout::multiply_keys(Rows keys, int64_t count, const std::byte* panels, int64_t width,
                                float alpha, float* y, std::byte* scratch) const {
  kernel_.multiply({.a = keys.data,
                    .a_stride = keys.stride,
                    .b = panels,
                    .b_stride = panel_bytes(act(), size_),
                    .rows = count,
                    .columns = width,
                    .lines = lines_of(act(), size_),
                    .y = reinterpret_cast<std::byte*>(y),
                    .y_stride = kBlockRows,
                    .alpha = alpha,
                    .scratch = scratch});
}

int64_t BlockLayout::scratch_bytes() const {
  // [key][row] by depth d, [row][d] by depth keys, [key][d] by depth rows.
  const size_t bytes =
      std::max({kernel_.scratch_bytes(kBlockKeys, kBlockRows, lines_of(act(), size_)),
                kernel_.scratch_bytes(kBlockRows, size_, lines_of(act(), kBlockKeys)),
                kernel_.scratch_bytes(kBlockKeys, size_, lines_of(act(), kBlockRows))});
  return static_cast<int64_t>(bytes);
}

PackedHeads::PackedHeads(const Context& ctx, const BlockLayout& layout, int64_t heads,
                         int64_t segments, FunctionRef<int64_t(int64_t)> keys)
    : layout_(layout),
      heads_(heads),
      begins_(ctx.scratch().tensor(DType::kI64, {segments + 1}).as<int64_t>()),
      counts_(ctx.scratch().tensor(DType::kI64, {segments + 1}).as<int64_t>()),
      data_(nullptr),
      list_(ctx.scratch(), segments + 1) {
  int64_t total = 0;
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t count = keys(s);
    if (!ctx.planning()) {
      begins_[s] = total;
      counts_[s] = count;
      list_.add(s, (count + kPackKeys - 1) / kPackKeys * heads);
    }
    total += (count + 1) / 2 * 2;
  }
  data_ = static_cast<std::byte*>(ctx.scratch().allocate(
      static_cast<size_t>(heads * panels_of(layout.size()) * panel_bytes(layout.act(), total))));
}

PackedKeys PackedHeads::at(int64_t segment, int64_t head) const {
  const int64_t panels = panels_of(layout_.size());
  const int64_t stride = panel_bytes(layout_.act(), counts_[segment]);
  return {data_ + panels * (heads_ * panel_bytes(layout_.act(), begins_[segment]) + head * stride),
          stride};
}

void PackedHeads::pack(const Context& ctx, int64_t stride,
                       FunctionRef<FloatRow(int64_t)> rows) const {
  ctx.threads().run(list_.size(), [&](int64_t task, int) {
    const BlockList::Place place = list_[task];
    const int64_t head = place.block % heads_, first = place.block / heads_ * kPackKeys;
    const FloatRow from = rows(place.segment).from(first * stride + head * layout_.size());
    const PackedKeys to = at(place.segment, head);
    layout_.kernel().pack_columns(
        {.from = from.data,
         .from_dtype = dtype_of_row(from),
         .from_stride = stride,
         .rows = std::min(kPackKeys, counts_[place.segment] - first),
         .columns = layout_.size(),
         .to = const_cast<std::byte*>(to.data) + lines_of(layout_.act(), first) * kLineBytes,
         .to_stride = to.stride});
  });
}

}  // namespace athanor::ops::cpu
