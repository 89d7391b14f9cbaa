#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace athanor {
namespace {

float round_trip(float value) { return static_cast<float>(bfloat16(value)); }

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kF64), 8U);
  EXPECT_EQ(size_of(DType::kF32), 4U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kI64), 8U);
  EXPECT_EQ(size_of(DType::kI32), 4U);
  EXPECT_EQ(size_of(DType::kU8), 1U);
  EXPECT_EQ(name_of(DType::kF64), "F64");
  EXPECT_EQ(name_of(DType::kF32), "F32");
  EXPECT_EQ(name_of(DType::kBF16), "BF16");
  EXPECT_EQ(name_of(DType::kI64), "I64");
  EXPECT_EQ(name_of(DType::kI32), "I32");
  EXPECT_EQ(name_of(DType::kU8), "U8");
  EXPECT_EQ(sizeof(bfloat16), 2U);
}

TEST(BFloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 value;
    value.bits = static_cast<uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(round_trip(wide)));
    } else {
      EXPECT_EQ(bfloat16(wide).bits, bits);
    }
  }
}

TEST(DType, IsFoundByTheNameItHas) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  }
  EXPECT_EQ(dtype_named("F16"), std::nullopt);
  EXPECT_EQ(dtype_named(""), std::nullopt);
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  const float step = 0x1p-7F;  // between neighbours just above 1
  EXPECT_EQ(round_trip(1.0F + 0.49F * step), 1.0F);
  EXPECT_EQ(round_trip(1.0F + 0.51F * step), 1.0F + step);
  EXPECT_EQ(round_trip(1.0F + 0.5F * step), 1.0F);             // 1 is even
  EXPECT_EQ(round_trip(1.0F + 1.5F * step), 1.0F + 2 * step);  // 1 + step is odd
  EXPECT_EQ(round_trip(-1.0F - 1.5F * step), -1.0F - 2 * step);
}

TEST(BFloat16, EdgesOfTheRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(round_trip(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(round_trip(-infinity), -infinity);
  EXPECT_TRUE(std::signbit(round_trip(-0.0F)));
  EXPECT_EQ(round_trip(0x1p-133F), 0x1p-133F);  // the smallest subnormal
  // A NaN whose payload lies in the lower half must not become infinity.
  EXPECT_TRUE(std::isnan(round_trip(std::bit_cast<float>(0x7f800001U))));
  EXPECT_TRUE(std::isnan(round_trip(std::bit_cast<float>(0xffffffffU))));
}

}  // namespace
}  // namespace athanor
