// Matrices for tests, and every kernel that this machine can run, the tile unit through its model.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/matrix_products.h"
#include "ops/matrix.h"
#include "ops/twin_table.h"

namespace athanor::ops::testing {

/// One way to compute: a family through the door, or a kernel of the tests' own behind it.
struct Backend {
  std::string name;
  Isa isa;
  const cpu::MatrixKernel* kernel = nullptr;
  DType compute;
};

/// All families of this CPU in f32 and bf16, the twin in f64 too, and `model` (the modelled tile
/// unit).
inline std::vector<Backend> backends(const cpu::MatrixKernel* model) {
  std::vector<Backend> all{{"reference f64", Isa::kReference, nullptr, DType::kF64}};
  for (const Isa isa : instruction_sets()) {
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      all.push_back(
          {std::string(name_of(isa)) + " " + std::string(name_of(compute)), isa, nullptr, compute});
    }
  }
  if (model != nullptr) all.push_back({model->name, Isa::kPortable, model, DType::kBF16});
  return all;
}

/// A dtype that must be converted on its way into the product.
inline DType other_act(DType compute) {
  return compute == DType::kBF16 ? DType::kF32 : DType::kBF16;
}

/// A matrix in a buffer of its own, to the byte (so that the address sanitizer sees each step
/// beyond it); `margin` more elements a row hold NaN, which must stay and must not spread.
class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t cols, int64_t margin = 0)
      : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + margin) {
    const int64_t numel = rows == 0 ? 0 : (rows - 1) * stride_ + cols;
    bytes_.resize(static_cast<size_t>(numel) * size_of(dtype));
    for (int64_t i = 0; i < numel; ++i) {
      if (i % stride_ >= cols) put(i, std::numeric_limits<double>::quiet_NaN());
    }
  }

  Tensor tensor() const {
    auto* data = const_cast<std::byte*>(bytes_.data());
    // A view of the left columns of a wider matrix. Its last row ends with the view.
    return Tensor(data, dtype_, {rows_, stride_}).columns(0, cols_);
  }
  double get(int64_t r, int64_t c) const { return at(r * stride_ + c); }
  void set(int64_t r, int64_t c, double value) { put(r * stride_ + c, value); }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  DType dtype() const { return dtype_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// True when every element between the rows is still NaN.
  bool margin_untouched() const {
    for (int64_t i = 0; i + 1 < rows_; ++i) {
      for (int64_t c = cols_; c < stride_; ++c) {
        if (!std::isnan(at(i * stride_ + c))) return false;
      }
    }
    return true;
  }

 private:
  double at(int64_t i) const {
    const auto* p = bytes_.data();
    if (dtype_ == DType::kF64) return reinterpret_cast<const double*>(p)[i];
    if (dtype_ == DType::kF32) return reinterpret_cast<const float*>(p)[i];
    return static_cast<float>(reinterpret_cast<const bfloat16*>(p)[i]);
  }
  void put(int64_t i, double value) {
    auto* p = bytes_.data();
    if (dtype_ == DType::kF64) {
      reinterpret_cast<double*>(p)[i] = value;
    } else if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(p)[i] = static_cast<float>(value);
    } else {
      reinterpret_cast<bfloat16*>(p)[i] = bfloat16(static_cast<float>(value));
    }
  }

  DType dtype_;
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  std::vector<std::byte> bytes_;
};

/// Numbers in [-1, 1) from a small generator of our own: the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  double next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-52 - 1.0;
  }
  void fill(Matrix& m) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      for (int64_t c = 0; c < m.cols(); ++c) m.set(r, c, next());
    }
  }

 private:
  uint64_t state_;
};

/// What a factor is worth after the conversion to the product's dtype.
inline double rounded(double value, DType compute) {
  if (compute == DType::kF64) return value;
  const auto narrow = static_cast<float>(value);
  return compute == DType::kBF16 ? static_cast<float>(bfloat16(narrow)) : narrow;
}

/// Half an ulp of 1 in the accumulator of `compute`, or in a result of `dtype`.
inline double epsilon_of_sums(DType compute) { return compute == DType::kF64 ? 0x1p-53 : 0x1p-24; }
inline double epsilon_of(DType dtype) {
  return dtype == DType::kF64 ? 0x1p-53 : dtype == DType::kF32 ? 0x1p-24 : 0x1p-8;
}

/// An exact sum and the sum of magnitudes, from which the bound of any order of summation follows.
struct Exact {
  double value = 0;
  double magnitude = 0;
  void add(double a, double b) {
    value += a * b;
    magnitude += std::abs(a * b);
  }
};

/// |actual − exact| ≤ (k + 4) ε Σ|a·b| + ε_y |y|: the bound of a sum in any order (Higham, §4.2),
/// and the last rounding.
inline void expect_close(double actual, const Exact& exact, int64_t k, DType compute, DType dtype,
                         const std::string& where) {
  const double bound = static_cast<double>(k + 4) * epsilon_of_sums(compute) * exact.magnitude +
                       1.01 * epsilon_of(dtype) * std::abs(exact.value) + 1e-30;
  ASSERT_LE(std::abs(actual - exact.value), bound)
      << where << ": " << actual << " for " << exact.value;
}

/// Plans `op`, reserves exactly what was planned, runs it, and sees that it took no less.
template <class Op>
void run_planned(const Backend& backend, int threads, const Op& op) {
  Arena plan("plan");
  Context planning(Threads(threads), plan, backend.isa);
  op(planning);
  EXPECT_EQ(plan.used(), 0U) << "scratch was not given back";
  Arena scratch("scratch");
  scratch.reserve(plan.peak());
  {
    WatchedContext watched(threads, scratch, backend.isa);
    op(watched.get());
  }
  EXPECT_EQ(scratch.used(), 0U) << "scratch was not given back";
  EXPECT_EQ(scratch.peak(), plan.peak());
}

// The ops on a backend: through the door, or, for the tests' own kernel, one step behind it.

inline void linear_on(const Backend& backend, Context& ctx, const Tensor& x, const PackedMatrix& w,
                      const Tensor& y, const Tensor& bias = {}) {
  if (backend.kernel == nullptr) return linear(ctx, x, w, y, bias);
  const int64_t offsets[] = {0, x.rows()};
  saw("linear", kModelledTiles);
  cpu::grouped_linear(ctx, *backend.kernel, x, offsets, std::span(&w, 1), y, bias);
}

inline void grouped_linear_on(const Backend& backend, Context& ctx, const Tensor& x,
                              std::span<const int64_t> offsets, std::span<const PackedMatrix> w,
                              const Tensor& y) {
  if (backend.kernel == nullptr) return grouped_linear(ctx, x, offsets, w, y);
  saw("grouped_linear", kModelledTiles);
  cpu::grouped_linear(ctx, *backend.kernel, x, offsets, w, y, {});
}

inline void accumulate_outer_on(const Backend& backend, Context& ctx, const Tensor& dy,
                                const Tensor& x, const Tensor& dw) {
  if (backend.kernel == nullptr) return accumulate_outer(ctx, backend.compute, dy, x, dw);
  const int64_t offsets[] = {0, x.rows()};
  saw("accumulate_outer", kModelledTiles);
  cpu::grouped_accumulate_outer(ctx, *backend.kernel, dy, x, offsets, 1, dw);
}

inline void grouped_outer_on(const Backend& backend, Context& ctx, const Tensor& dy,
                             const Tensor& x, std::span<const int64_t> offsets, const Tensor& dw) {
  if (backend.kernel == nullptr) {
    return grouped_accumulate_outer(ctx, backend.compute, dy, x, offsets, dw);
  }
  saw("grouped_accumulate_outer", kModelledTiles);
  cpu::grouped_accumulate_outer(ctx, *backend.kernel, dy, x, offsets, dw.dim(0), dw);
}

inline void block_outer_on(const Backend& backend, Context& ctx, const Tensor& dy, const Tensor& x,
                           const Tensor& dw) {
  if (backend.kernel == nullptr) return block_accumulate_outer(ctx, backend.compute, dy, x, dw);
  saw("block_accumulate_outer", kModelledTiles);
  cpu::block_accumulate_outer(ctx, *backend.kernel, dy, x, dw.dim(0), dw);
}

inline void matmul_on(const Backend& backend, Context& ctx, const Tensor& a, const Tensor& b,
                      const Tensor& c, const MatmulOptions& options) {
  if (backend.kernel == nullptr) return matmul(ctx, backend.compute, a, b, c, options);
  saw("matmul", kModelledTiles);
  cpu::matmul(ctx, *backend.kernel, a, b, c, c, options, false);
}

/// B of y = x · wᵀ, packed by the backend; `data` keeps it alive.
struct Packed {
  std::vector<std::byte> data;
  PackedMatrix matrix;
};
inline Packed pack_on(const Backend& backend, const Matrix& w, bool transposed) {
  Packed packed;
  PackedMatrix& m = packed.matrix;
  m = {backend.compute, transposed ? w.cols() : w.rows(), transposed ? w.rows() : w.cols(),
       nullptr};
  packed.data.assign(PackedMatrix::bytes(m.dtype, m.n, m.k), std::byte{0xff});  // NaN
  m.data = packed.data.data();
  run_planned(backend, 2, [&](Context& ctx) {
    if (backend.kernel != nullptr) {
      saw(transposed ? "pack_transposed" : "pack", kModelledTiles);
      cpu::pack(ctx, *backend.kernel, w.tensor(), transposed, m);
    } else if (transposed) {
      pack_transposed(ctx, w.tensor(), m);
    } else {
      pack(ctx, w.tensor(), m);
    }
  });
  return packed;
}

}  // namespace athanor::ops::testing
