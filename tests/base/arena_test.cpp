#include "base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace athanor {
namespace {

ExitCode code_of_reserve(Arena& arena, size_t bytes) {
  try {
    arena.reserve(bytes);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

/// The same allocations for planning and for real.
void lay_out(Arena& arena) {
  arena.tensor(DType::kF32, {3, 5});
  {
    ArenaScope scope(arena);
    arena.allocate(1000);
    arena.tensor(DType::kBF16, {7, 11, 2});
  }
  arena.allocate(1);
  arena.allocate(0);
}

TEST(Arena, ThePlanIsExact) {
  Arena plan("plan");
  EXPECT_TRUE(plan.planning());
  lay_out(plan);
  EXPECT_EQ(plan.used(), 128U);              // 60 bytes and 1 byte, a cache line each
  EXPECT_EQ(plan.peak(), 64U + 1024 + 320);  // 308 bytes of bf16 take five lines

  Arena real("real");
  real.reserve(plan.peak());
  EXPECT_FALSE(real.planning());
  EXPECT_EQ(real.capacity(), plan.peak());
  lay_out(real);
  EXPECT_EQ(real.peak(), plan.peak());
  EXPECT_EQ(real.used(), plan.used());
}

TEST(Arena, AllocationsAreAlignedDisjointAndZeroed) {
  Arena arena("test");
  arena.reserve(4096);
  auto* first = static_cast<unsigned char*>(arena.allocate(65));
  auto* second = static_cast<unsigned char*>(arena.allocate(3));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
  EXPECT_EQ(second - first, 128);
  for (int i = 0; i < 65; ++i) EXPECT_EQ(first[i], 0);
  std::memset(first, 1, 65);
  EXPECT_EQ(second[0], 0);
}

TEST(Arena, PastTheEndIsABugNamedWithItsSize) {
  Arena arena("activations");
  arena.reserve(128);
  arena.allocate(128);
  try {
    arena.allocate(1);
    FAIL() << "an allocation past the end was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBug);
    EXPECT_NE(std::string(error.what()).find("'activations' of 128 bytes is too small by 64"),
              std::string::npos)
        << error.what();
  }
}

TEST(Arena, WhatNoMachineHasIsRefusedAndTheArenaStaysUsable) {
  Arena arena("huge");
  EXPECT_EQ(code_of_reserve(arena, size_t{1} << 60), ExitCode::kResources);
  EXPECT_EQ(code_of_reserve(arena, std::numeric_limits<size_t>::max()), ExitCode::kResources);
  EXPECT_EQ(arena.capacity(), 0U);
  EXPECT_TRUE(arena.planning());
  EXPECT_EQ(code_of_reserve(arena, 64), ExitCode::kDone);
  EXPECT_NE(arena.allocate(64), nullptr);
}

TEST(Arena, ShapesThatOverflowAreRefusedNotWrapped) {
  Arena arena("plan");
  const int64_t big = int64_t{1} << 32;
  EXPECT_THROW(arena.tensor(DType::kF32, {big, big}), Error);
  EXPECT_THROW(arena.tensor(DType::kF32, {big, big, big}), Error);
  EXPECT_THROW(arena.tensor(DType::kF32, {-1, 4}), Error);
  EXPECT_THROW(arena.tensor(DType::kF32, {big, big, 0}), Error);
  EXPECT_EQ(arena.tensor(DType::kF32, {big, 0}).numel(), 0);
}

TEST(Arena, ReserveForgetsEarlierAllocations) {
  Arena arena("test");
  arena.allocate(640);
  arena.reserve(64);
  EXPECT_EQ(arena.used(), 0U);
  EXPECT_EQ(arena.peak(), 0U);
  arena.reserve(0);
  EXPECT_EQ(arena.capacity(), 64U);
}

}  // namespace
}  // namespace athanor
