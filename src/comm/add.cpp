#include "comm/add.h"

#include <utility>

namespace athanor::comm {
namespace {

template <class T>
void add_as(const std::byte* from, std::byte* to, int64_t count) {
  const T* __restrict source = reinterpret_cast<const T*>(from);
  T* __restrict target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) target[i] += source[i];
}

}  // namespace

void add(DType dtype, const std::byte* from, std::byte* to, int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return add_as<float>(from, to, count);
    case DType::kF64:
      return add_as<double>(from, to, count);
    case DType::kI64:
      return add_as<int64_t>(from, to, count);
    default:
      throw bug("a sum over ranks of a dtype that has none");
  }
}

void add_tree(DType dtype, std::span<std::byte*> parts, size_t keep, int64_t count) {
  const std::byte* const kept = parts[keep];
  for (size_t stride = 1; stride < parts.size(); stride *= 2) {
    for (size_t i = 0; i + stride < parts.size(); i += 2 * stride) {
      // a + b = b + a to the bit: the sum goes where the end result is wanted.
      if (parts[i + stride] == kept) std::swap(parts[i], parts[i + stride]);
      add(dtype, parts[i + stride], parts[i], count);
    }
  }
}

}  // namespace athanor::comm
