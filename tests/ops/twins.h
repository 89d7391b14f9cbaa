// The comparison behind the table of all ops (twin_table.h): an op runs on every instruction set of this
// CPU, with one, two and three threads and exactly the scratch it planned, and is compared with its
// plain twin in f64 on equal inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "ops/context.h"
#include "ops/twin_table.h"

namespace athanor::ops::testing {

inline double get(const Tensor& t, int64_t row, int64_t col) {
  const int64_t i = row * t.row_stride() + col;
  switch (t.dtype()) {
    case DType::kF64:
      return t.as<double>()[i];
    case DType::kF32:
      return t.as<float>()[i];
    case DType::kBF16:
      return static_cast<float>(t.as<bfloat16>()[i]);
    default:
      return t.as<int32_t>()[i];
  }
}

inline void set(const Tensor& t, int64_t row, int64_t col, double value) {
  const int64_t i = row * t.row_stride() + col;
  switch (t.dtype()) {
    case DType::kF64:
      t.as<double>()[i] = value;
      return;
    case DType::kF32:
      t.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::kBF16:
      t.as<bfloat16>()[i] = bfloat16(static_cast<float>(value));
      return;
    default:
      t.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
}

inline double epsilon(DType dtype) {
  return dtype == DType::kF64 ? 0x1p-53 : dtype == DType::kF32 ? 0x1p-24 : 0x1p-8;
}

/// Memory of a tensor of any dtype, possibly with columns around it that nothing may touch.
class Buffer {
 public:
  Buffer(DType dtype, int64_t rows, int64_t cols, int64_t margin)
      : bytes_(static_cast<size_t>(rows * (cols + 2 * margin)) * size_of(dtype) + 64,
               std::byte{77}),
        whole_(aligned(), dtype, {rows, cols + 2 * margin}),
        view_(margin == 0 && rows == 1 ? Tensor(aligned(), dtype, {cols})
                                       : whole_.columns(margin, cols)),
        margin_(margin) {
    if (margin == 0 && rows > 1) view_ = whole_;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Tensor& view() const { return view_; }
  bool margins_untouched() const {
    const size_t size = size_of(whole_.dtype());
    const auto* bytes = reinterpret_cast<const unsigned char*>(whole_.data());
    for (int64_t r = 0; r < whole_.rows(); ++r) {
      for (int64_t c = 0; c < whole_.cols(); ++c) {
        if (c >= margin_ && c < whole_.cols() - margin_) continue;
        for (size_t b = 0; b < size; ++b) {
          if (bytes[static_cast<size_t>(r * whole_.cols() + c) * size + b] != 77) return false;
        }
      }
    }
    return true;
  }

 private:
  std::byte* aligned() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }
  std::vector<std::byte> bytes_;
  Tensor whole_;
  Tensor view_;
  int64_t margin_;
};

enum class Role { kInput, kAccumulated, kWritten };
enum class Kind { kReal, kAct, kIndex };

/// |fast − twin| ≤ epsilon(dtype)·|twin| + terms · 2⁻²⁴ · scale.
struct Bound {
  double terms = 4;   ///< roundings that may add up
  double scale = -1;  ///< size of what is rounded; −1: the largest element of the twin
};

/// One operand: its f64 original, from which every run starts.
struct Operand {
  Role role;
  Kind kind;
  int64_t rows, cols, margin;
  std::vector<double> start;
  Bound bound;
};

/// Gives the tensor of operand i in the run at hand.
using Operands = std::function<Tensor(int)>;
using Op = std::function<void(Context&, const Operands&)>;

class Twins {
 public:
  Twins(Precision precision, uint64_t seed) : precision_(precision), random_(seed, 1) {}

  /// Operands get numbers 0, 1, …; values are normal times `size`, rounded to the operand's dtype.
  int input(Kind kind, int64_t rows, int64_t cols, double size = 1.0, int64_t margin = 0) {
    return make(Role::kInput, kind, rows, cols, size, margin, {});
  }
  int accumulated(int64_t rows, int64_t cols, Bound bound, int64_t margin = 0) {
    return make(Role::kAccumulated, Kind::kReal, rows, cols, 1.0, margin, bound);
  }
  int written(Kind kind, int64_t rows, int64_t cols, Bound bound, int64_t margin = 0) {
    return make(Role::kWritten, kind, rows, cols, 0.0, margin, bound);
  }
  std::vector<double>& start(int i) { return operands_[i].start; }
  RandomStream& random() { return random_; }
  DType dtype(Kind kind, Precision precision) const {
    return kind == Kind::kIndex ? DType::kI32
           : kind == Kind::kAct ? act_dtype(precision)
                                : real_dtype(precision);
  }

  /// Runs `op` everywhere and compares. `what` names the case in messages.
  void compare(const std::string& what, const Op& op) {
    const std::vector<std::vector<double>> twin = run(Isa::kReference, Precision::kFp64, 1, op);
    for (const Isa isa : instruction_sets()) {
      SCOPED_TRACE(what + " on " + std::string(name_of(isa)) + " in " +
                   std::string(name_of(precision_)));
      const auto one = run(isa, precision_, 1, op);
      check(one, twin);
      for (const int threads : {2, 3}) {
        const auto many = run(isa, precision_, threads, op);
        for (size_t i = 0; i < operands_.size(); ++i) {
          if (operands_[i].role == Role::kInput) continue;
          EXPECT_EQ(0, std::memcmp(one[i].data(), many[i].data(), one[i].size() * sizeof(double)))
              << "operand " << i << " has other bits with " << threads << " threads";
        }
      }
      if (::testing::Test::HasFailure()) return;
    }
  }

  /// One run in `precision`; the operands' values after it.
  std::vector<std::vector<double>> run(Isa isa, Precision precision, int threads, const Op& op) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const Operand& o : operands_) {
      buffers.push_back(
          std::make_unique<Buffer>(dtype(o.kind, precision), o.rows, o.cols, o.margin));
      for (int64_t i = 0; i < o.rows * o.cols; ++i) {
        set(buffers.back()->view(), i / o.cols, i % o.cols, o.start[i]);
      }
    }
    const Operands operand = [&](int i) { return buffers[i]->view(); };
    Arena plan("plan");
    Context planning(Threads(threads), plan, isa);
    op(planning, operand);
    for (size_t i = 0; i < operands_.size(); ++i) {
      expect_unchanged(i, buffers[i]->view(), precision);
    }
    Arena scratch("scratch");
    scratch.reserve(plan.peak());
    if (plan.peak() > 0) std::memset(scratch.allocate(plan.peak()), 0xff, plan.peak());
    scratch.release(0);
    {
      WatchedContext watched(threads, scratch, isa);
      op(watched.get(), operand);
    }
    EXPECT_EQ(scratch.used(), 0u) << "scratch was not given back";
    EXPECT_EQ(scratch.peak(), plan.peak()) << "the plan was not exact";
    std::vector<std::vector<double>> result;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& o = operands_[i];
      EXPECT_TRUE(buffers[i]->margins_untouched()) << "operand " << i;
      if (o.role == Role::kInput) expect_unchanged(i, buffers[i]->view(), precision);
      std::vector<double> values(o.start.size());
      for (int64_t k = 0; k < o.rows * o.cols; ++k) {
        values[k] = get(buffers[i]->view(), k / o.cols, k % o.cols);
      }
      result.push_back(std::move(values));
    }
    return result;
  }

 private:
  int make(Role role, Kind kind, int64_t rows, int64_t cols, double size, int64_t margin,
           Bound bound) {
    Operand o{role, kind, rows, cols, margin, {}, bound};
    o.start.resize(static_cast<size_t>(rows * cols));
    for (double& value : o.start) {
      value = role == Role::kWritten ? std::numeric_limits<double>::quiet_NaN()
                                     : size * random_.normal();
      if (kind == Kind::kIndex) value = -7;
      if (kind == Kind::kReal) value = static_cast<float>(value);
      if (kind == Kind::kAct && precision_ == Precision::kBf16) {
        value = static_cast<float>(bfloat16(static_cast<float>(value)));
      } else if (kind == Kind::kAct) {
        value = static_cast<float>(value);
      }
    }
    operands_.push_back(std::move(o));
    return static_cast<int>(operands_.size()) - 1;
  }

  void expect_unchanged(size_t i, const Tensor& view, Precision) {
    const Operand& o = operands_[i];
    for (int64_t k = 0; k < o.rows * o.cols; ++k) {
      const double now = get(view, k / o.cols, k % o.cols);
      if (now == o.start[k] || (now != now && o.start[k] != o.start[k])) continue;
      ADD_FAILURE() << "operand " << i << " was written at " << k;
      return;
    }
  }

  void check(const std::vector<std::vector<double>>& fast,
             const std::vector<std::vector<double>>& twin) {
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& o = operands_[i];
      if (o.role == Role::kInput) continue;
      double scale = o.bound.scale;
      for (const double value : twin[i]) {
        if (o.bound.scale < 0 && std::isfinite(value)) scale = std::max(scale, std::abs(value));
      }
      const double rounding = o.kind == Kind::kIndex ? 0.0 : epsilon(dtype(o.kind, precision_));
      for (size_t k = 0; k < twin[i].size(); ++k) {
        const double a = fast[i][k], b = twin[i][k];
        if (a == b || (a != a && b != b)) continue;
        const double bound =
            o.kind == Kind::kIndex ? 0.0 : rounding * std::abs(b) + o.bound.terms * 0x1p-24 * scale;
        if (std::abs(a - b) <= bound) continue;
        ADD_FAILURE() << "operand " << i << " at [" << k / o.cols << ", " << k % o.cols
                      << "]: " << a << ", twin " << b << ", off by " << std::abs(a - b)
                      << ", allowed " << bound;
        break;
      }
    }
  }

  Precision precision_;
  RandomStream random_;
  std::vector<Operand> operands_;
};

/// Compares `gradient` (f64) with central finite differences of `loss` by `x`, element by element.
inline void expect_gradient(std::vector<double>& x, const std::vector<double>& gradient,
                            const std::function<double()>& loss, double tolerance = 1e-7) {
  double largest = 1e-3;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i], step = 1e-5;
    x[i] = kept + step;
    const double above = loss();
    x[i] = kept - step;
    const double below = loss();
    x[i] = kept;
    ASSERT_NEAR((above - below) / (2 * step), gradient[i], tolerance * largest) << "element " << i;
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace athanor::ops::testing
