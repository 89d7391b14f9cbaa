// Random numbers as tensors.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace athanor::ops {

/// Elements that are drawn from one stream.
constexpr int64_t kNormalBlock = 4096;

/// t[i] = deviation · n, where n is number i mod kNormalBlock that RandomStream::normal() gives on the
/// stream `name`, i / kNormalBlock: whoever draws a block, and with whatever kernel, has the same bits.
/// t real, contiguous.
void fill_normal(Context& ctx, const Tensor& t, double deviation, uint64_t seed, const char* name);

}  // namespace athanor::ops
