// Sums of elements that lie in memory.
#pragma once

#include <span>

#include "base/tensor.h"

namespace athanor::comm {

/// to[i] += from[i] for `count` elements of f32, f64 or i64.
void add(DType dtype, const std::byte* from, std::byte* to, int64_t count);

/// parts[0] + … as a binary tree over their indices (pairs at distance 1, 2, 4, …), `count` elements each. Every part may be
/// overwritten; the sum ends in parts[keep].
void add_tree(DType dtype, std::span<std::byte*> parts, size_t keep, int64_t count);

}  // namespace athanor::comm
