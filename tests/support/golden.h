// The reference vectors of golden/README.md: where they lie, and comparison with its tolerances.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/safetensors.h"

namespace athanor::test {

/// Measured errors and tolerances (fp32) of golden/README.md.
inline constexpr double kLogitsTolerance = 1e-4;      ///< max abs
inline constexpr double kActivationTolerance = 2e-5;  ///< max abs over the tensor's largest
inline constexpr double kLossTolerance = 1e-5;
inline constexpr double kGradientTolerance = 2e-4;  ///< max abs over the tensor's largest

/// The folder of a case: in tests/data/golden, or else in ATHANOR_GOLDEN or ../shared/golden beside
/// the checkout. Nothing when it is in none of them; the test then skips with `golden_absent`.
std::optional<fs::path> golden_folder(const std::string& name);
/// The same of a folder that holds `file`, which the committed one may lack.
std::optional<fs::path> golden_folder(const std::string& name, const std::string& file);
/// Says what was looked for, for GTEST_SKIP().
std::string golden_absent(const std::string& name);

/// A tensor in memory, as double or int64.
struct Values {
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int64_t> integers;  ///< instead of reals for I64 and I32
  bool integral = false;
  int64_t numel() const { return static_cast<int64_t>(integral ? integers.size() : reals.size()); }
  /// Product of all dimensions after the first two: (B, T) lead in the vectors.
  int64_t width() const;
};

/// All tensors of a safetensors file.
std::map<std::string, Values> read_vectors(const fs::path& path);
/// The same of a view; `shape` is the view's.
Values values_of(const Tensor& tensor);

double largest(const std::vector<double>& values);
/// max |a − b|; infinity when the sizes differ or a value is not finite.
double max_difference(const std::vector<double>& a, const std::vector<double>& b);
/// max |a − b| / max |b|; 0 when both are all zero.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

/// Compares every output of a vectors file (inputs and `loss` apart) with mine of the same name, by
/// the tolerances above, and returns how many there were.
int expect_outputs(const std::map<std::string, Values>& mine,
                   const std::map<std::string, Values>& reference);
/// Compares every gradient of a grads file with mine, which go by weight name. The file may hold a
/// weight's gradient X, or X.row_norms, X.row_sums, X.e (golden/README.md "realhead").
void expect_gradients(const std::map<std::string, Values>& mine,
                      const std::map<std::string, Values>& reference);

}  // namespace athanor::test
