// Five AdamW and Muon steps on given gradients, against PyTorch (golden/optim).
#include <gtest/gtest.h>

#include <cmath>

#include "ops/matrix.h"
#include "ops/update.h"
#include "support/golden.h"

namespace athanor::test {
namespace {

constexpr int kSteps = 5;
constexpr double kLearningRate = 1e-3, kWeightDecay = 0.1, kMomentum = 0.95;

// Tolerances of golden/README.md.
constexpr double kAdamWParameters = 2e-6;
constexpr double kMuonUpdate = 2e-5, kMuonParameters = 3e-6;
constexpr double kMuonBf16Update = 4e-2, kMuonBf16Parameters = 1e-4;
constexpr double kMuonBf16Cosine = 0.9998;  // to the fp32 update

using Vectors = std::map<std::string, Values>;

Tensor matrix_of(std::vector<float>& values, int64_t rows, int64_t cols) {
  return Tensor::of(values.data(), {rows, cols});
}
Tensor matrix_of(std::vector<double>& values, int64_t rows, int64_t cols) {
  return Tensor::of(values.data(), {rows, cols});
}

// The context with scratch for whatever the ops under test take.
struct Workbench {
  Arena scratch{"scratch"};
  ops::Context ctx;
  Workbench() : ctx(Threads(2), scratch) { scratch.reserve(size_t{16} << 20); }
};

std::vector<double> slice(const Values& values, int64_t index, int64_t count) {
  const auto begin = values.reals.begin() + index * count;
  return {begin, begin + count};
}

class GoldenOptim : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto folder = golden_folder("optim");
    if (!folder) GTEST_SKIP() << golden_absent("optim");
    vectors_ = read_vectors(*folder / "vectors.safetensors");
    fp64_ = read_vectors(*folder / "vectors_fp64.safetensors");
    key_ = GetParam();
    gradient_ = vectors_.at("grad." + key_);
    const auto& shape = gradient_.shape;  // [steps, rows, cols] or [steps, E, rows, cols]
    ASSERT_EQ(shape.at(0), kSteps);
    matrices_ = shape.size() == 4 ? shape[1] : 1;
    rows_ = shape[shape.size() - 2];
    cols_ = shape[shape.size() - 1];
  }
  int64_t numel() const { return matrices_ * rows_ * cols_; }
  // "muon_fp32.param.wide.3", or nothing where that state is not stored.
  const Values* stored(const Vectors& vectors, const std::string& rule, const char* what,
                       int step) const {
    const auto found = vectors.find(rule + "." + what + "." + key_ + "." + std::to_string(step));
    return found == vectors.end() ? nullptr : &found->second;
  }

  template <class Real>
  void run_muon(const Vectors& vectors, const std::string& rule, DType products,
                double update_tolerance, double parameter_tolerance);

  Vectors vectors_, fp64_;
  std::string key_;
  Values gradient_;
  int64_t matrices_ = 1, rows_ = 0, cols_ = 0;
  Workbench bench_;
};

class GoldenAdamW : public GoldenOptim {};

TEST_P(GoldenAdamW, MeetsTheReference) {
  const Values& start = vectors_.at("param." + key_);
  std::vector<float> p(start.reals.begin(), start.reals.end());
  std::vector<float> g(numel()), m(numel()), v(numel());
  ops::AdamWOptions options;
  options.learning_rate = kLearningRate;
  options.weight_decay = kWeightDecay;
  for (int t = 0; t < kSteps; ++t) {
    const std::vector<double> given = slice(gradient_, t, numel());
    std::copy(given.begin(), given.end(), g.begin());
    options.step = t + 1;
    ops::adamw(bench_.ctx, Tensor::of(p.data(), {numel()}), Tensor::of(g.data(), {numel()}),
               Tensor::of(m.data(), {numel()}), Tensor::of(v.data(), {numel()}), options);
    const auto compare = [&](const char* what, const std::vector<float>& mine, double tolerance) {
      const Values* reference = stored(vectors_, "adamw", what, t);
      ASSERT_NE(reference, nullptr) << what;
      const std::vector<double> own(mine.begin(), mine.end());
      EXPECT_LE(max_difference(own, reference->reals), tolerance) << what << " after step " << t;
    };
    compare("param", p, kAdamWParameters);
    compare("exp_avg", m, kAdamWParameters);
    compare("exp_avg_sq", v, kAdamWParameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GoldenAdamW,
                         testing::Values("square", "tall", "wide", "row", "zero"));

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// Runs the five steps and compares every state that `vectors` stores under `rule`.
template <class Real>
void GoldenOptim::run_muon(const Vectors& vectors, const std::string& rule, DType products,
                           double update_tolerance, double parameter_tolerance) {
  const Values& start = vectors_.at("param." + key_);
  std::vector<Real> p(start.reals.begin(), start.reals.end());
  std::vector<Real> g(numel()), momentum(numel()), update(numel());
  ops::Context& ctx = bench_.ctx;
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows_, cols_)));
  int compared = 0;
  for (int t = 0; t < kSteps; ++t) {
    const std::vector<double> given = slice(gradient_, t, numel());
    std::copy(given.begin(), given.end(), g.begin());
    const auto matrix = [&](std::vector<Real>& all, int64_t e) {
      return matrix_of(all, matrices_ * rows_, cols_).slice_rows(e * rows_, rows_);
    };
    for (int64_t e = 0; e < matrices_; ++e) {
      ops::muon_momentum(ctx, matrix(g, e), kMomentum, 1.0, matrix(momentum, e), matrix(update, e));
      ops::newton_schulz(ctx, products, matrix(update, e), matrix(update, e));
      ops::muon_apply(ctx, matrix(p, e), matrix(update, e), 1 - kLearningRate * kWeightDecay,
                      kLearningRate * scale);
    }
    const auto compare = [&](const char* what, const std::vector<Real>& mine, double tolerance) {
      const Values* reference = stored(vectors, rule, what, t);
      if (reference == nullptr) return;
      ++compared;
      const std::vector<double> own(mine.begin(), mine.end());
      EXPECT_LE(max_difference(own, reference->reals), tolerance) << what << " after step " << t;
      const bool bf16_against_fp32 = products == DType::kBF16 && rule == "muon_fp32";
      if (bf16_against_fp32 && &mine == &update && largest(reference->reals) > 0) {
        EXPECT_GE(cosine(own, reference->reals), kMuonBf16Cosine) << "after step " << t;
      }
    };
    compare("param", p, parameter_tolerance);
    compare("update", update, update_tolerance);
    compare("momentum", momentum, parameter_tolerance);
  }
  EXPECT_GE(compared, 2);
}

class GoldenMuon : public GoldenOptim {};

TEST_P(GoldenMuon, Fp32MeetsTheReference) {
  run_muon<float>(vectors_, "muon_fp32", DType::kF32, kMuonUpdate, kMuonParameters);
}

TEST_P(GoldenMuon, Bf16MeetsTorch) {
  run_muon<float>(vectors_, "muon_torch", DType::kBF16, kMuonBf16Update, kMuonBf16Parameters);
}

TEST_P(GoldenMuon, Bf16IsAsNearToFp32AsTorchIs) {
  run_muon<float>(vectors_, "muon_fp32", DType::kBF16, kMuonBf16Update, kMuonBf16Parameters);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GoldenMuon,
                         testing::Values("square", "tall", "wide", "row", "experts", "zero"));

class GoldenMuonFp64 : public GoldenOptim {};

TEST_P(GoldenMuonFp64, Fp32MeetsFp64) {
  run_muon<float>(fp64_, "muon_fp64", DType::kF32, kMuonUpdate, kMuonParameters);
}

// In fp64 the two implementations differ by rounding alone.
TEST_P(GoldenMuonFp64, Fp64MeetsFp64) {
  run_muon<double>(fp64_, "muon_fp64", DType::kF64, 1e-9, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GoldenMuonFp64,
                         testing::Values("square", "tall", "wide", "row", "zero"));

}  // namespace
}  // namespace athanor::test
