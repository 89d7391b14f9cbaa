// Tensor: a view of elements that someone else owns (an Arena, a mapped file, a vector).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace athanor {

/// Elements of a tensor of that shape, of sizes from 0: their product, 0 where one of them is 0. The product of the others must fit.
int64_t numel_of(std::span<const int64_t> shape);

/// A view of up to four dimensions, seen by the ops as a matrix: all dimensions but the last are its rows.
/// Invariant: the last dimension is dense and consecutive rows lie `row_stride` elements apart, so a slice of columns
/// is a view too; every other operation on the shape needs a contiguous tensor (row_stride == cols).
/// Copying a Tensor copies the view, never the elements; constness is of the view, as with std::span.
class Tensor {
 public:
  Tensor() = default;
  /// Contiguous view of `shape` at `data`.
  Tensor(void* data, DType dtype, std::span<const int64_t> shape);
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
      : Tensor(data, dtype, std::span(shape.begin(), shape.size())) {}

  template <class T>
  static Tensor of(T* data, std::initializer_list<int64_t> shape) {
    return {const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>::value,
            shape};
  }

  bool empty() const { return data_ == nullptr; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int i) const { return shape_[i < 0 ? rank_ + i : i]; }
  std::span<const int64_t> shape() const { return {shape_.data(), static_cast<size_t>(rank_)}; }
  int64_t rows() const;  ///< product of all dimensions but the last; 1 for a vector
  int64_t cols() const { return rank_ == 0 ? 0 : shape_[rank_ - 1]; }
  int64_t row_stride() const { return row_stride_; }  ///< elements from one row to the next
  int64_t numel() const { return rows() * cols(); }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  bool contiguous() const { return row_stride_ == cols() || rows() == 1; }

  std::byte* data() const { return data_; }
  /// Pointer to the first element; T must match the dtype.
  template <class T>
  T* as() const {
    require(dtype_of<std::remove_const_t<T>>::value == dtype_, "tensor read with another dtype");
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  T* row(int64_t r) const {
    return as<T>() + r * row_stride_;
  }

  /// Rows [begin, begin + count) as a matrix [count, cols].
  Tensor slice_rows(int64_t begin, int64_t count) const;
  /// Columns [begin, begin + count) as a matrix [rows, count] with this row stride.
  Tensor columns(int64_t begin, int64_t count) const;
  /// Elements [begin, begin + count) as a vector; contiguous tensors only.
  Tensor part(int64_t begin, int64_t count) const;
  /// The same elements under another shape; contiguous tensors only.
  Tensor reshaped(std::span<const int64_t> shape) const;
  Tensor reshaped(std::initializer_list<int64_t> shape) const {
    return reshaped(std::span(shape.begin(), shape.size()));
  }
  /// Element i of the first dimension: [d1, d2, …]; contiguous tensors only.
  Tensor at(int64_t i) const;
  /// "F32[3, 64]" for messages.
  std::string describe() const;

 private:
  std::byte* data_ = nullptr;
  DType dtype_ = DType::kF32;
  int rank_ = 0;
  std::array<int64_t, 4> shape_{};
  int64_t row_stride_ = 0;
};

}  // namespace athanor
