#include "ops/cpu/reference/matrix_reference.h"

#include <algorithm>

namespace athanor::ops::reference {
namespace {

constexpr int64_t kPanel = 16;

/// Element (row, col) of t as T, rounded to bf16 on the way where `compute` asks for it.
template <class T>
T load(const Tensor& t, int64_t row, int64_t col, DType compute) {
  const int64_t i = row * t.row_stride() + col;
  switch (t.dtype()) {
    case DType::kBF16:
      return static_cast<T>(static_cast<float>(t.as<bfloat16>()[i]));
    case DType::kF32: {
      const float value = t.as<float>()[i];
      return static_cast<T>(compute == DType::kBF16 ? static_cast<float>(bfloat16(value)) : value);
    }
    case DType::kF64: {
      const double value = t.as<double>()[i];
      if (compute == DType::kF64) return static_cast<T>(value);
      const auto narrow = static_cast<float>(value);
      return static_cast<T>(compute == DType::kBF16 ? static_cast<float>(bfloat16(narrow))
                                                    : narrow);
    }
    default:
      throw bug("a matrix product of " + t.describe());
  }
}

template <class T>
void store(const Tensor& t, int64_t row, int64_t col, T value) {
  const int64_t i = row * t.row_stride() + col;
  switch (t.dtype()) {
    case DType::kBF16:
      t.as<bfloat16>()[i] = bfloat16(static_cast<float>(value));
      return;
    case DType::kF32:
      t.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::kF64:
      t.as<double>()[i] = static_cast<double>(value);
      return;
    default:
      throw bug("a matrix product into " + t.describe());
  }
}

/// Position of B[col, k] in a packed matrix of n×k (see PackedMatrix).
int64_t packed_index(DType dtype, int64_t depth, int64_t col, int64_t k) {
  const int64_t padded = (depth + 1) / 2 * 2;
  const int64_t panel = col / kPanel * padded * kPanel;
  const int64_t lane = col % kPanel;
  if (dtype == DType::kBF16) return panel + (k / 2) * kPanel * 2 + lane * 2 + k % 2;
  return panel + k * kPanel + lane;
}

template <class T>
void linear_as(const Threads& threads, const Tensor& x, const PackedMatrix& w, const Tensor& y,
               const Tensor& bias) {
  const Tensor b(w.data, w.dtype,
                 {static_cast<int64_t>(PackedMatrix::bytes(w.dtype, w.n, w.k) / size_of(w.dtype))});
  threads.run(x.rows(), [&](int64_t row, int) {
    for (int64_t col = 0; col < w.n; ++col) {
      T sum{};
      for (int64_t k = 0; k < w.k; ++k) {
        sum += load<T>(x, row, k, w.dtype) *
               load<T>(b, 0, packed_index(w.dtype, w.k, col, k), w.dtype);
      }
      if (!bias.empty()) sum += load<T>(bias, 0, col, bias.dtype());
      store(y, row, col, sum);
    }
  });
}

template <class T>
void matmul_as(const Threads& threads, DType compute, const Tensor& a, const Tensor& b,
               const Tensor& z, const Tensor& c, const MatmulOptions& options) {
  const int64_t depth = options.transpose_a ? a.rows() : a.cols();
  threads.run(c.rows(), [&](int64_t row, int) {
    for (int64_t col = 0; col < c.cols(); ++col) {
      T sum{};
      for (int64_t k = 0; k < depth; ++k) {
        sum += (options.transpose_a ? load<T>(a, k, row, compute) : load<T>(a, row, k, compute)) *
               (options.transpose_b ? load<T>(b, col, k, compute) : load<T>(b, k, col, compute));
      }
      sum *= static_cast<T>(options.alpha);
      if (options.beta != 0.0) {
        sum += static_cast<T>(options.beta) * load<T>(z, row, col, z.dtype());
      }
      store(c, row, col, sum);
    }
  });
}

}  // namespace

void pack(const Threads& threads, const Tensor& w, bool transposed, const PackedMatrix& out) {
  const Tensor b(
      out.data, out.dtype,
      {static_cast<int64_t>(PackedMatrix::bytes(out.dtype, out.n, out.k) / size_of(out.dtype))});
  const int64_t panels = (out.n + kPanel - 1) / kPanel;
  const int64_t padded = (out.k + 1) / 2 * 2;
  threads.run(panels, [&](int64_t panel, int) {
    for (int64_t col = panel * kPanel; col < (panel + 1) * kPanel; ++col) {
      for (int64_t k = 0; k < padded; ++k) {
        const bool padding = col >= out.n || k >= out.k;
        const double value = padding      ? 0.0
                             : transposed ? load<double>(w, k, col, out.dtype)
                                          : load<double>(w, col, k, out.dtype);
        store(b, 0, packed_index(out.dtype, out.k, col, k), value);
      }
    }
  });
}

void linear(const Threads& threads, const Tensor& x, const PackedMatrix& w, const Tensor& y,
            const Tensor& bias) {
  if (w.dtype == DType::kF64) {
    linear_as<double>(threads, x, w, y, bias);
  } else {
    linear_as<float>(threads, x, w, y, bias);
  }
}

void accumulate_outer(const Threads& threads, DType compute, const Tensor& dy, const Tensor& x,
                      const Tensor& dw) {
  matmul(threads, compute, dy, x, dw, dw, {.transpose_a = true, .beta = 1.0});
}

void matmul(const Threads& threads, DType compute, const Tensor& a, const Tensor& b,
            const Tensor& z, const Tensor& c, const MatmulOptions& options) {
  if (compute == DType::kF64) {
    matmul_as<double>(threads, compute, a, b, z, c, options);
  } else {
    matmul_as<float>(threads, compute, a, b, z, c, options);
  }
}

}  // namespace athanor::ops::reference
