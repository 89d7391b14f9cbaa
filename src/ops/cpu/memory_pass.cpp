#include "ops/cpu/memory_pass.h"

#include <atomic>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/memory_pass.cpp"
#include "ops/cpu/simd.h"
// After simd.h, which says which targets are left out.
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Blocks are whole multiples of four vectors of every target, and aligned.
uint64_t read_block(const uint64_t* from, int64_t count) {
  const hn::ScalableTag<uint64_t> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  auto a = hn::Zero(tag), b = a, c = a, d = a;
  for (int64_t i = 0; i < count; i += 4 * lanes) {
    a = hn::Or(a, hn::Load(tag, from + i));
    b = hn::Or(b, hn::Load(tag, from + i + lanes));
    c = hn::Or(c, hn::Load(tag, from + i + 2 * lanes));
    d = hn::Or(d, hn::Load(tag, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::Or(hn::Or(a, b), hn::Or(c, d)));
}

void write_block(uint64_t* to, int64_t count) {
  const hn::ScalableTag<uint64_t> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const auto value = hn::Set(tag, 1);
  for (int64_t i = 0; i < count; i += lanes) hn::Store(value, tag, to + i);
}

void stream_block(uint64_t* to, int64_t count) {
  const hn::ScalableTag<uint64_t> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  const auto value = hn::Set(tag, 1);
  for (int64_t i = 0; i < count; i += lanes) hn::Stream(value, tag, to + i);
  hwy::FlushStream();
}

void copy_block(const uint64_t* from, uint64_t* to, int64_t count) {
  const hn::ScalableTag<uint64_t> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (int64_t i = 0; i < count; i += lanes) hn::Store(hn::Load(tag, from + i), tag, to + i);
}

void stream_copy_block(const uint64_t* from, uint64_t* to, int64_t count) {
  const hn::ScalableTag<uint64_t> tag;
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (int64_t i = 0; i < count; i += lanes) hn::Stream(hn::Load(tag, from + i), tag, to + i);
  hwy::FlushStream();
}

}  // namespace athanor::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::ops::cpu {
namespace {

HWY_EXPORT(read_block);
HWY_EXPORT(write_block);
HWY_EXPORT(stream_block);
HWY_EXPORT(copy_block);
HWY_EXPORT(stream_copy_block);

// Large enough that the threads' meeting costs nothing, small enough that all threads end together.
constexpr int64_t kBlockBytes = int64_t{256} << 10;
constexpr int64_t kBlockWords = kBlockBytes / 8;

}  // namespace

int64_t memory_pass(const Context& ctx, MemoryAccess access, const Tensor& buffer) {
  auto* const words = reinterpret_cast<uint64_t*>(buffer.data());
  const bool copies = access == MemoryAccess::kCopy || access == MemoryAccess::kStreamCopy;
  const int64_t all = static_cast<int64_t>(buffer.bytes()) / kBlockBytes;
  const int64_t blocks = copies ? all / 2 : all;
  static std::atomic<uint64_t> seen;  // so that no read is left out as unused
  ctx.threads().run(blocks, [&](int64_t task, int) {
    uint64_t* const here = words + task * kBlockWords;
    uint64_t* const there = here + blocks * kBlockWords;
    switch (access) {
      case MemoryAccess::kRead:
        seen.store(ATHANOR_KERNEL(read_block, ctx.isa())(here, kBlockWords),
                   std::memory_order_relaxed);
        break;
      case MemoryAccess::kWrite:
        ATHANOR_KERNEL(write_block, ctx.isa())(here, kBlockWords);
        break;
      case MemoryAccess::kStream:
        ATHANOR_KERNEL(stream_block, ctx.isa())(here, kBlockWords);
        break;
      case MemoryAccess::kCopy:
        ATHANOR_KERNEL(copy_block, ctx.isa())(here, there, kBlockWords);
        break;
      case MemoryAccess::kStreamCopy:
        ATHANOR_KERNEL(stream_copy_block, ctx.isa())(here, there, kBlockWords);
        break;
    }
  });
  return blocks * kBlockBytes * (copies ? 2 : 1);
}

}  // namespace athanor::ops::cpu
#endif  // HWY_ONCE
