// Which family of kernels a machine gets, and what is said where it is not the one it could have.
#include "ops/fallback.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cpu/cpu_features.h"
#include "ops/elementwise.h"
#include "ops/matrix.h"

namespace athanor::ops {
namespace {

using cpu::Choice;
using cpu::Families;
using cpu::Machine;

bool yes(Isa) { return true; }
bool granted() { return true; }

/// A machine with a tile unit and nothing wrong.
constexpr Machine kWhole{yes, granted, yes, yes};

TEST(Fallback, AWholeMachineGetsItsFastestFamilyAndSaysNothing) {
  const Choice choice = choose_family(find_families(kWhole), nullptr);
  EXPECT_EQ(choice.isa, Isa::kAmx);
  EXPECT_TRUE(choice.reasons.empty());
}

TEST(Fallback, ARefusedTileUnitNamesTheReason) {
  Machine machine = kWhole;
  machine.grants_tiles = [] { return false; };
  const Families families = find_families(machine);
  const Choice choice = choose_family(families, "");
  EXPECT_EQ(choice.isa, Isa::kAvx512Bf16);
  ASSERT_EQ(choice.reasons.size(), 1U);
  EXPECT_NE(choice.reasons[0].find("not amx: the operating system refuses"), std::string::npos);
  EXPECT_THROW(choose_family(families, "amx"), Error);
}

TEST(Fallback, AKernelThatFailsItsCheckIsLeftWithThoseThatBuildOnIt) {
  for (const Isa broken : {Isa::kAmx, Isa::kAvx512Bf16}) {
    static Isa failing;
    failing = broken;
    Machine machine = kWhole;
    machine.computes = [](Isa isa) { return isa != failing; };
    const Choice choice = choose_family(find_families(machine), nullptr);
    EXPECT_EQ(choice.isa, broken == Isa::kAmx ? Isa::kAvx512Bf16 : Isa::kAvx512);
    ASSERT_EQ(choice.reasons.size(), 1U);
    EXPECT_NE(choice.reasons[0].find(std::string(name_of(broken)) + ": its products are wrong"),
              std::string::npos)
        << choice.reasons[0];
  }
}

TEST(Fallback, VectorsThatHighwayDoesNotRunAreNamed) {
  Machine machine = kWhole;
  machine.has_vectors = [](Isa isa) { return isa < Isa::kAvx512; };
  const Choice choice = choose_family(find_families(machine), nullptr);
  EXPECT_EQ(choice.isa, Isa::kAmx);
  ASSERT_EQ(choice.reasons.size(), 1U);
  EXPECT_NE(choice.reasons[0].find("Highway"), std::string::npos);
  EXPECT_TRUE(choose_family(find_families(kWhole), "amx").reasons.empty());
}

TEST(Fallback, AMachineWithoutTheInstructionsHasNothingToExplain) {
  Machine machine = kWhole;
  machine.cpu_has = [](Isa isa) { return isa <= Isa::kAvx2; };
  machine.computes = [](Isa) { return false; };  // nobody asks
  const Choice choice = choose_family(find_families(machine), nullptr);
  EXPECT_EQ(choice.isa, Isa::kAvx2);
  EXPECT_TRUE(choice.reasons.empty());
}

TEST(Fallback, ASlowerFamilyThatIsAskedForIsNamedToo) {
  const Choice choice = choose_family(find_families(kWhole), "reference");
  EXPECT_EQ(choice.isa, Isa::kReference);
  ASSERT_EQ(choice.reasons.size(), 1U);
  EXPECT_EQ(choice.reasons[0], "ATHANOR_ISA=reference, and this machine has amx");
}

TEST(Fallback, IsKeptAndWarnedOfOnceForEachOpAndReason) {
  const size_t before = fallback_count();
  ::testing::internal::CaptureStderr();
  for (const char* reason : {"one", "one", "another", "one"}) {
    fall_back("an_op", "reference", std::string(reason) + " reason");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: an_op runs the reference kernels: one reason\n"
            "warning: an_op runs the reference kernels: another reason\n");
  ASSERT_EQ(fallback_count(), before + 2);
  const Fallback last = fallbacks().back();
  EXPECT_EQ(last.op, "an_op");
  EXPECT_EQ(last.kernel, "reference");
  EXPECT_EQ(last.reason, "another reason");
}

TEST(Fallback, AnOpWithoutAFastKernelForItsNumbersFallsBack) {
  const auto falls = [](std::string_view op) {
    for (const Fallback& f : fallbacks()) {
      if (f.op == op && f.reason == "f64 has no fast kernel") return true;
    }
    return false;
  };
  std::vector<double> numbers(4, 1.0);
  const Tensor t = Tensor::of(numbers.data(), {2, 2});
  Arena scratch("scratch");
  scratch.reserve(1 << 20);
  Context plain(Threads(1), scratch, Isa::kReference);
  add(plain, t, t);
  EXPECT_FALSE(falls("add")) << "what was chosen is no fallback";
  Context fast(Threads(1), scratch, Isa::kPortable);
  add(fast, t, t);
  EXPECT_TRUE(falls("add"));
  matmul(fast, DType::kF64, t, t, t);
  EXPECT_TRUE(falls("matmul"));
}

}  // namespace
}  // namespace athanor::ops
