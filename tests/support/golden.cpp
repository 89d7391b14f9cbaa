#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace athanor::test {
namespace {

fs::path outside_folder() {
  const char* variable = std::getenv("ATHANOR_GOLDEN");
  return variable != nullptr ? fs::path(variable)
                             : fs::path(ATHANOR_SOURCE_DIR) / ".." / "shared" / "golden";
}

// Names in a vectors file that are no outputs.
bool is_input(const std::string& name) {
  return name == "input_ids" || name == "labels" || name == "targets" || name == "cu_seqlens" ||
         name == "position_ids" || name == "attention_mask" || name == "loss";
}

// What a router margin is measured against. It is p₁ + b₁ − (p₂ + b₂), and its error that of the
// two probabilities, a millionth of them like every activation's, however near to one another they
// come. With tokens enough the tensor's largest margin is of their size. With one token (odd's
// vectors_t1: a margin of 0.007 between probabilities near 0.27) it is not: there the stored margin
// itself is 1.4e-7, or 1.9e-5 of the margin, off its fp64 value, which is all of the tolerance.
double margin_scale(const Values& margin, const std::map<std::string, Values>& reference,
                    const std::string& name) {
  const auto applied = reference.find(name.substr(0, name.rfind('.')) + ".expert_prob");
  const double probability = applied == reference.end() ? 0 : largest(applied->second.reals);
  return std::max(largest(margin.reals), probability);
}

void expect_output(const std::string& name, const Values& mine,
                   const std::map<std::string, Values>& references) {
  const Values& reference = references.at(name);
  if (reference.integral) {
    EXPECT_EQ(mine.integers, reference.integers) << name;
  } else if (name == "logits") {
    EXPECT_LE(max_difference(mine.reals, reference.reals), kLogitsTolerance) << name;
  } else if (name.ends_with("router_margin")) {
    EXPECT_LE(max_difference(mine.reals, reference.reals),
              kActivationTolerance * margin_scale(reference, references, name))
        << name;
  } else {
    EXPECT_LE(relative_difference(mine.reals, reference.reals), kActivationTolerance) << name;
  }
}

// Rows (first index) of a stored gradient, summed up as `suffix` says.
std::vector<double> summarised(const Values& gradient, bool norms) {
  const int64_t rows = gradient.shape.at(0), width = gradient.numel() / rows;
  std::vector<double> summary(rows);
  for (int64_t i = 0; i < gradient.numel(); ++i) {
    const double x = gradient.reals[i];
    summary[i / width] += norms ? x * x : x;
  }
  if (norms) {
    for (double& x : summary) x = std::sqrt(x);
  }
  return summary;
}

// The part of my gradients that a reference name means: X, X.row_norms, X.row_sums, or X.e.
std::vector<double> gradient_named(const std::map<std::string, Values>& mine,
                                   const std::string& name) {
  if (const auto found = mine.find(name); found != mine.end()) return found->second.reals;
  const size_t dot = name.rfind('.');
  const auto found = mine.find(name.substr(0, dot));
  if (found == mine.end()) return {};
  const std::string suffix = name.substr(dot + 1);
  if (suffix == "row_norms") return summarised(found->second, /*norms=*/true);
  if (suffix == "row_sums") return summarised(found->second, /*norms=*/false);
  const int64_t size = found->second.numel() / found->second.shape.at(0);
  const auto begin = found->second.reals.begin() + std::stoll(suffix) * size;
  return {begin, begin + size};
}

}  // namespace

std::optional<fs::path> golden_folder(const std::string& name) { return golden_folder(name, ""); }

std::optional<fs::path> golden_folder(const std::string& name, const std::string& file) {
  const fs::path committed = fs::path(ATHANOR_SOURCE_DIR) / "tests" / "data" / "golden";
  for (const fs::path& all : {committed, outside_folder()}) {
    if (fs::is_directory(all / name) && fs::exists(all / name / file)) return all / name;
  }
  return std::nullopt;
}

std::string golden_absent(const std::string& name) {
  return "NOT RUN: reference vectors " + name + " are not in " + outside_folder().string() +
         " (set ATHANOR_GOLDEN)";
}

int64_t Values::width() const {
  int64_t n = 1;
  for (size_t i = 2; i < shape.size(); ++i) n *= shape[i];
  return n;
}

std::map<std::string, Values> read_vectors(const fs::path& path) {
  const checkpoint::SafetensorsFile file(path);
  std::map<std::string, Values> vectors;
  for (const checkpoint::TensorEntry& entry : file.entries()) {
    Values values;
    values.shape = entry.shape;
    values.integral = entry.type == DType::kI64 || entry.type == DType::kI32;
    if (values.integral) {
      values.integers.resize(entry.numel());
      file.read(entry, 0, Tensor::of(values.integers.data(), {entry.numel()}));
    } else {
      values.reals.resize(entry.numel());
      file.read(entry, 0, Tensor::of(values.reals.data(), {entry.numel()}));
    }
    vectors[entry.name] = std::move(values);
  }
  return vectors;
}

Values values_of(const Tensor& tensor) {
  Values values;
  for (int i = 0; i < tensor.rank(); ++i) values.shape.push_back(tensor.dim(i));
  values.integral = tensor.dtype() == DType::kI64 || tensor.dtype() == DType::kI32;
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  if (values.integral) values.integers.resize(rows * cols);
  if (!values.integral) values.reals.resize(rows * cols);
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* row =
        tensor.data() + static_cast<size_t>(r * tensor.row_stride()) * size_of(tensor.dtype());
    void* into = values.integral ? static_cast<void*>(values.integers.data() + r * cols)
                                 : static_cast<void*>(values.reals.data() + r * cols);
    require(checkpoint::convert_elements(row, tensor.dtype(), into,
                                         values.integral ? DType::kI64 : DType::kF64, cols),
            "values_of cannot read this dtype");
  }
  return values;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    most = std::max(most, difference);
  }
  return most;
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  const double difference = max_difference(a, b);
  return difference == 0 ? 0 : difference / largest(b);
}

int expect_outputs(const std::map<std::string, Values>& mine,
                   const std::map<std::string, Values>& reference) {
  int compared = 0;
  for (const auto& [name, values] : reference) {
    if (is_input(name)) continue;
    const auto found = mine.find(name);
    if (found == mine.end() || found->second.numel() != values.numel()) {
      ADD_FAILURE() << name << " is missing or has another size";
      continue;
    }
    expect_output(name, found->second, reference);
    ++compared;
  }
  return compared;
}

void expect_gradients(const std::map<std::string, Values>& mine,
                      const std::map<std::string, Values>& reference) {
  for (const auto& [name, values] : reference) {
    const std::vector<double> own = gradient_named(mine, name);
    if (own.size() != values.reals.size()) {
      ADD_FAILURE() << name << " is missing or has another size";
      continue;
    }
    EXPECT_LE(relative_difference(own, values.reals), kGradientTolerance) << name;
  }
}

}  // namespace athanor::test
