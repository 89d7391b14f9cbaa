// The choice of kernels, what is said about it, and the ceiling.
#include "ops/context.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/cpu/cpu_features.h"
#include "ops/matrix.h"

namespace athanor::ops {
namespace {

constexpr Isa kAll[] = {Isa::kReference, Isa::kPortable,   Isa::kAvx2,
                        Isa::kAvx512,    Isa::kAvx512Bf16, Isa::kAmx};

// The choice is made once a process, so each case starts the program anew. An emulator cannot be
// started so: there a case forks, from a process in which ctest runs one test alone.
#if defined(ATHANOR_EMULATED)
constexpr const char* kDeathTestStyle = "fast";
#else
constexpr const char* kDeathTestStyle = "threadsafe";
#endif

class IsaDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, kDeathTestStyle); }
};

[[noreturn]] void choose_and_exit(const char* wanted) {
  setenv("ATHANOR_ISA", wanted, 1);
  try {
    std::fprintf(stderr, "chose %s\n", std::string(name_of(detected_isa())).c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(static_cast<int>(error.code()));
  }
  std::exit(0);
}

TEST_F(IsaDeathTest, EnvironmentNamesTheFamily) {
  for (const Isa isa : kAll) {
    const std::string name(name_of(isa));
    if (cpu::has(isa)) {
      EXPECT_EXIT(choose_and_exit(name.c_str()), ::testing::ExitedWithCode(0), "chose " + name);
    } else {
      EXPECT_EXIT(choose_and_exit(name.c_str()), ::testing::ExitedWithCode(2),
                  "ATHANOR_ISA=" + name + ".*does not have it.*portable");
    }
  }
}

TEST_F(IsaDeathTest, AnUnknownFamilyIsRefused) {
  EXPECT_EXIT(choose_and_exit("mmx"), ::testing::ExitedWithCode(2),
              "ATHANOR_ISA=mmx.*unknown.*reference, portable, avx2");
}

TEST_F(IsaDeathTest, WithoutAWishTheFastestIsChosen) {
  Isa best = Isa::kReference;
  for (const Isa isa : kAll) {
    if (cpu::has(isa)) best = isa;
  }
  EXPECT_EXIT(choose_and_exit(""), ::testing::ExitedWithCode(0),
              "chose " + std::string(name_of(best)));
}

void multiply_twice(const char* verbose) {
  setenv("ATHANOR_VERBOSE", verbose, 1);
  std::vector<float> x(12, 1.0F);
  Arena memory("memory");
  memory.reserve(1 << 16);
  Arena scratch("scratch");
  scratch.reserve(1 << 20);
  Context ctx(Threads(1), scratch, Isa::kPortable);
  PackedMatrix w = PackedMatrix::allocate(memory, DType::kF32, 5, 4);
  const Tensor y = memory.tensor(DType::kF32, {3, 5});
  for (int i = 0; i < 2; ++i) linear(ctx, Tensor::of(x.data(), {3, 4}), w, y);
}

TEST(KernelReportDeathTest, NamesKernelShapeAndReasonOnce) {
  GTEST_FLAG_SET(death_test_style, kDeathTestStyle);
  const auto run = [](const char* verbose) {
    multiply_twice(verbose);
    std::fprintf(stderr, "end\n");
    std::exit(0);
  };
  EXPECT_EXIT(run("kernels"), ::testing::ExitedWithCode(0),
              "^kernel: linear 3x5x4 portable f32 [^\n]*\\([^\n]*\\)\nend\n$");
  EXPECT_EXIT(run("other"), ::testing::ExitedWithCode(0), "^end\n$");
}

TEST(MatrixCeiling, IsMeasuredOnEveryFamily) {
  for (const Isa isa : kAll) {
    if (!cpu::has(isa)) continue;
    for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
      Arena scratch("scratch");
      Context planning(Threads(2), scratch, isa);
      measure_matrix_ceiling(planning, compute, 0.01);
      scratch.reserve(scratch.peak());
      Context ctx(Threads(2), scratch, isa);
      const MatrixCeiling ceiling = measure_matrix_ceiling(ctx, compute, 0.01);
      EXPECT_GT(ceiling.register_flops, 0) << name_of(isa);
      EXPECT_GT(ceiling.cache_flops, 0) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace athanor::ops
