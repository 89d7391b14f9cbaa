#include "support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATHANOR_COUNTS_ALLOCATIONS 0
#else
#define ATHANOR_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> count{0};
}

#if ATHANOR_COUNTS_ALLOCATIONS

// The other forms of new and delete call these.
void* operator new(std::size_t bytes) {
  ++count;
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++count;
  const auto unit = static_cast<std::size_t>(alignment);
  void* p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

#endif

namespace athanor::test {

bool counts_allocations() { return ATHANOR_COUNTS_ALLOCATIONS == 1; }

int64_t allocations() { return count; }

}  // namespace athanor::test
