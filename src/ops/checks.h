// Shape checks of the ops' doors: a tensor that does not fit is a bug of the caller and is named.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/tensor.h"
#include "ops/context.h"

namespace athanor::ops {

/// Checks the tensors of one call of `op`; each failure throws kBug with the op's name, the
/// tensor's name and its shape.
class Checks {
 public:
  /// `real` is one real tensor of the call: its dtype (f32 or f64) becomes that of all real ones.
  Checks(std::string_view op, const Tensor& real);
  Checks(std::string_view op, DType real);

  /// A matrix of `rows` × `cols` of the real dtype; rows may be strided.
  void real(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const;
  /// As real(), of the real dtype or of bf16.
  void real_or_act(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const;
  /// A contiguous real tensor of `count` elements, whatever its dimensions.
  void real_vector(std::string_view name, const Tensor& t, int64_t count) const;
  /// A contiguous i32 tensor of `count` elements.
  void index_vector(std::string_view name, const Tensor& t, int64_t count) const;
  /// Segment boundaries that rise strictly from 0 to `rows` (none at all for 0 rows).
  void segments(std::span<const int64_t> begins, int64_t rows) const;
  void that(bool condition, std::string_view what) const;

  DType real_dtype() const { return real_; }
  std::string_view op() const { return op_; }

 private:
  void matrix(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const;
  [[noreturn]] void fail(std::string_view name, const Tensor& t, std::string_view wanted) const;

  std::string_view op_;
  DType real_;
};

/// The real dtype that goes with a tensor that may be an activation.
constexpr DType real_of(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// True when the plain twin of `op` has to run: it was chosen, or the numbers are f64 (a fallback).
bool runs_reference(const Context& ctx, std::string_view op, DType real);
inline bool runs_reference(const Context& ctx, const Checks& check) {
  return runs_reference(ctx, check.op(), check.real_dtype());
}

}  // namespace athanor::ops
