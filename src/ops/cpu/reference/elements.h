// Elements of a tensor of any floating dtype, read and written as double: what the plain twins
// compute in.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace athanor::ops::reference {

/// Twins compute in double whatever the dtype and round once, on the store: they are the value to
/// compare with.
class Elements {
 public:
  explicit Elements(const Tensor& t)
      : data_(t.data()), dtype_(t.dtype()), row_stride_(t.row_stride()) {}

  double get(int64_t row, int64_t col) const {
    const int64_t i = row * row_stride_ + col;
    switch (dtype_) {
      case DType::kF64:
        return reinterpret_cast<const double*>(data_)[i];
      case DType::kF32:
        return reinterpret_cast<const float*>(data_)[i];
      case DType::kBF16:
        return static_cast<float>(reinterpret_cast<const bfloat16*>(data_)[i]);
      default:
        throw bug("a floating tensor was expected");
    }
  }
  void set(int64_t row, int64_t col, double value) const {
    const int64_t i = row * row_stride_ + col;
    switch (dtype_) {
      case DType::kF64:
        reinterpret_cast<double*>(data_)[i] = value;
        return;
      case DType::kF32:
        reinterpret_cast<float*>(data_)[i] = static_cast<float>(value);
        return;
      case DType::kBF16:
        reinterpret_cast<bfloat16*>(data_)[i] = bfloat16(static_cast<float>(value));
        return;
      default:
        throw bug("a floating tensor was expected");
    }
  }
  void add(int64_t row, int64_t col, double value) const { set(row, col, get(row, col) + value); }

  /// Element i of a vector (a contiguous tensor).
  double operator[](int64_t i) const { return get(0, i); }

 private:
  std::byte* data_;
  DType dtype_;
  int64_t row_stride_;
};

}  // namespace athanor::ops::reference
