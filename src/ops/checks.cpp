#include "ops/checks.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ops/fallback.h"

namespace athanor::ops {

Checks::Checks(std::string_view op, const Tensor& real) : Checks(op, real.dtype()) {}

Checks::Checks(std::string_view op, DType real) : op_(op), real_(real) {
  that(real == DType::kF32 || real == DType::kF64, "real tensors are F32 or F64");
}

void Checks::that(bool condition, std::string_view what) const {
  if (!condition) throw bug(fmt::format("{}: {}", op_, what));
}

void Checks::fail(std::string_view name, const Tensor& t, std::string_view wanted) const {
  throw bug(
      fmt::format("{}: {} is {}, not {}", op_, name, t.empty() ? "empty" : t.describe(), wanted));
}

void Checks::matrix(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const {
  if (t.empty() || t.rows() != rows || t.cols() != cols) {
    fail(name, t, fmt::format("[{}, {}]", rows, cols));
  }
}

void Checks::real(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const {
  matrix(name, t, rows, cols);
  if (t.dtype() != real_) fail(name, t, name_of(real_));
}

void Checks::real_or_act(std::string_view name, const Tensor& t, int64_t rows, int64_t cols) const {
  matrix(name, t, rows, cols);
  const bool act = t.dtype() == DType::kBF16 && real_ == DType::kF32;
  if (t.dtype() != real_ && !act) fail(name, t, fmt::format("{} or an activation", name_of(real_)));
}

void Checks::real_vector(std::string_view name, const Tensor& t, int64_t count) const {
  if (t.empty() || t.dtype() != real_ || t.numel() != count || !t.contiguous()) {
    fail(name, t, fmt::format("{}[{}]", name_of(real_), count));
  }
}

void Checks::index_vector(std::string_view name, const Tensor& t, int64_t count) const {
  if (t.empty() || t.dtype() != DType::kI32 || t.numel() != count || !t.contiguous()) {
    fail(name, t, fmt::format("I32[{}]", count));
  }
}

void Checks::segments(std::span<const int64_t> begins, int64_t rows) const {
  that(!begins.empty() && begins.front() == 0 && begins.back() == rows,
       "segments must run from 0 to the number of tokens");
  for (size_t i = 1; i < begins.size(); ++i) {
    that(begins[i] > begins[i - 1], "segments must rise strictly");
  }
}

bool runs_reference(const Context& ctx, std::string_view op, DType real) {
  if (ctx.isa() == Isa::kReference) return true;
  if (real != DType::kF64) return false;
  fall_back(op, "reference", "f64 has no fast kernel");
  return true;
}

}  // namespace athanor::ops
