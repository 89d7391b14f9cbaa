// Arena: memory laid out before step one, handed out by bumping an offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/tensor.h"

namespace athanor {

/// Where an arena's bytes live. A device becomes one more value.
enum class MemorySpace : uint8_t { kHost };

/// A bump allocator over one block. It has two lives:
///  * planning: there is no block; allocations return addresses that must not be read, and `peak()` tells how large the
///    block has to be. The code that lays out memory therefore runs once to plan and once for real: the plan is exact.
///  * reserved: the block exists; an allocation past its end is a bug(70), never a silent malloc.
/// Every allocation is rounded to 64 bytes. Not thread-safe: one thread lays memory out.
class Arena {
 public:
  explicit Arena(std::string name, MemorySpace space = MemorySpace::kHost);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Takes `bytes` from the system (zeroed pages; touched lazily) and forgets all earlier allocations.
  /// Throws kResources with the figures when the system refuses.
  void reserve(size_t bytes);
  /// Hands out `bytes` at `block`, 64-byte aligned, which belong to another and outlive this arena's use of them.
  void borrow(void* block, size_t bytes);
  bool planning() const { return block_ == nullptr; }

  void* allocate(size_t bytes);
  Tensor tensor(DType dtype, std::initializer_list<int64_t> shape);

  size_t mark() const { return used_; }
  void release(size_t mark) { used_ = mark; }
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }
  size_t capacity() const { return capacity_; }
  const std::string& name() const { return name_; }
  MemorySpace space() const { return space_; }

 private:
  void drop();

  std::string name_;
  MemorySpace space_;
  std::byte* block_ = nullptr;
  bool owned_ = false;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t peak_ = 0;
};

/// Gives back, at the end of a scope, everything allocated in it.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace athanor
