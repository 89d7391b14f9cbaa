#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace athanor {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and a whole AVX-512 vector or tile row
constexpr uintptr_t kPlanningBase = 1 << 20;

}  // namespace

Arena::Arena(std::string name, MemorySpace space) : name_(std::move(name)), space_(space) {}

Arena::~Arena() {
  if (block_ != nullptr) munmap(block_, capacity_);
}

void Arena::reserve(size_t bytes) {
  if (block_ != nullptr) munmap(block_, capacity_);
  block_ = nullptr;
  capacity_ = std::max<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  void* block = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    throw system_error(errno, "reserve " + std::to_string(capacity_) + " bytes for", name_,
                       ExitCode::kResources);
  }
  madvise(block, capacity_, MADV_HUGEPAGE);  // advice: a refusal costs speed, never correctness
  block_ = static_cast<std::byte*>(block);
  used_ = peak_ = 0;
}

void* Arena::allocate(size_t bytes) {
  const size_t offset = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
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
    bytes *= static_cast<size_t>(n);
  }
  return {allocate(bytes), dtype, shape};
}

}  // namespace athanor
