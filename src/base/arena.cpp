#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace athanor {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and a whole AVX-512 vector or tile row
constexpr uintptr_t kPlanningBase = 1 << 20;

/// `bytes` in whole cache lines; sizes that no machine has are refused here, before a sum of them
/// wraps.
size_t aligned(size_t bytes, const std::string& arena) {
  if (bytes > SIZE_MAX / 4) {
    throw resource_error("reserve " + std::to_string(bytes) + " bytes for " + arena +
                         ": more than an address space holds");
  }
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Arena::Arena(std::string name, MemorySpace space) : name_(std::move(name)), space_(space) {}

Arena::~Arena() { drop(); }

void Arena::drop() {
  if (owned_) munmap(block_, capacity_);
  block_ = nullptr;
  owned_ = false;
  capacity_ = used_ = peak_ = 0;
}

void Arena::borrow(void* block, size_t bytes) {
  require(block != nullptr && reinterpret_cast<uintptr_t>(block) % kAlignment == 0,
          "an arena borrows aligned memory");
  drop();
  block_ = static_cast<std::byte*>(block);
  capacity_ = bytes;
}

void Arena::reserve(size_t bytes) {
  drop();
  const size_t wanted = std::max(aligned(bytes, name_), kAlignment);
  void* block = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    throw system_error(errno, "reserve " + std::to_string(wanted) + " bytes for", name_,
                       ExitCode::kResources);
  }
  madvise(block, wanted, MADV_HUGEPAGE);  // advice: a refusal costs speed, never correctness
  block_ = static_cast<std::byte*>(block);
  owned_ = true;
  capacity_ = wanted;
}

void* Arena::allocate(size_t bytes) {
  const size_t offset = used_;
  used_ = aligned(offset + aligned(bytes, name_), name_);
  peak_ = std::max(peak_, used_);
  if (block_ == nullptr) return reinterpret_cast<void*>(kPlanningBase + offset);
  if (used_ > capacity_) {
    throw bug("arena '" + name_ + "' of " + std::to_string(capacity_) + " bytes is too small by " +
              std::to_string(used_ - capacity_) + ": the memory plan missed an allocation");
  }
  return block_ + offset;
}

Tensor Arena::tensor(DType dtype, std::initializer_list<int64_t> shape) {
  size_t bytes = size_of(dtype);
  for (const int64_t n : shape) {
    require(n >= 0, "negative tensor dimension");
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes)) bytes = SIZE_MAX;
    if (n == 0) {
      bytes = 0;
      break;
    }
  }
  return {allocate(bytes), dtype, shape};
}

}  // namespace athanor
