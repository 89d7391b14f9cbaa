#include "base/tensor.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace athanor {

int64_t numel_of(std::span<const int64_t> shape) {
  // A zero decides, whatever stands beside it: sizes from a file may be such that the others overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Tensor::Tensor(void* data, DType dtype, std::span<const int64_t> shape)
    : data_(static_cast<std::byte*>(data)), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
  require(rank_ >= 1 && rank_ <= 4, "a tensor has one to four dimensions");
  int i = 0;
  int64_t product = 1;  // of the dimensions above 0: rows() and numel() fit whatever is left out
  for (const int64_t n : shape) {
    require(n >= 0, "negative tensor dimension");
    require(n == 0 || !__builtin_mul_overflow(product, n, &product), "tensor shape overflows");
    shape_[i++] = n;
  }
  row_stride_ = cols();
}

int64_t Tensor::rows() const {
  if (rank_ == 0) return 0;
  int64_t n = 1;
  for (int i = 0; i + 1 < rank_; ++i) n *= shape_[i];
  return n;
}

Tensor Tensor::slice_rows(int64_t begin, int64_t count) const {
  require(begin >= 0 && count >= 0 && begin <= rows() - count, "row slice outside the tensor");
  Tensor t(data_ + static_cast<size_t>(begin * row_stride_) * size_of(dtype_), dtype_,
           {count, cols()});
  t.row_stride_ = row_stride_;
  return t;
}

Tensor Tensor::columns(int64_t begin, int64_t count) const {
  require(begin >= 0 && count >= 0 && begin <= cols() - count, "column slice outside the tensor");
  Tensor t(data_ + static_cast<size_t>(begin) * size_of(dtype_), dtype_, {rows(), count});
  t.row_stride_ = row_stride_;
  return t;
}

Tensor Tensor::part(int64_t begin, int64_t count) const {
  require(contiguous() && begin >= 0 && count >= 0 && begin <= numel() - count,
          "part outside the tensor");
  return {data_ + static_cast<size_t>(begin) * size_of(dtype_), dtype_, {count}};
}

Tensor Tensor::reshaped(std::span<const int64_t> shape) const {
  Tensor t(data_, dtype_, shape);
  require(contiguous() && t.numel() == numel(), "reshape needs a contiguous tensor of equal size");
  return t;
}

Tensor Tensor::at(int64_t i) const {
  require(contiguous() && rank_ >= 2 && i >= 0 && i < shape_[0], "index outside the tensor");
  Tensor t;
  t.dtype_ = dtype_;
  t.rank_ = rank_ - 1;
  for (int d = 1; d < rank_; ++d) t.shape_[d - 1] = shape_[d];
  t.row_stride_ = t.cols();
  t.data_ = data_ + static_cast<size_t>(i * t.numel()) * size_of(dtype_);
  return t;
}

std::string Tensor::describe() const {
  std::string s(name_of(dtype_));
  s += '[';
  for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(shape_[i]);
  return s + ']';
}

}  // namespace athanor
