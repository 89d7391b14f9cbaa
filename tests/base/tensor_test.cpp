#include "base/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace athanor {
namespace {

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(Tensor, IsAMatrixOfItsLastDimension) {
  auto values = counting(24);
  const Tensor t = Tensor::of(values.data(), {2, 3, 4});
  EXPECT_EQ(t.dtype(), DType::kF32);
  EXPECT_EQ(t.rank(), 3);
  EXPECT_EQ(t.rows(), 6);
  EXPECT_EQ(t.cols(), 4);
  EXPECT_EQ(t.numel(), 24);
  EXPECT_EQ(t.bytes(), 96U);
  EXPECT_EQ(t.dim(0), 2);
  EXPECT_EQ(t.dim(-1), 4);
  EXPECT_TRUE(t.contiguous());
  EXPECT_EQ(t.row<float>(5)[3], 23.0F);
  EXPECT_EQ(t.describe(), "F32[2, 3, 4]");
}

TEST(Tensor, AVectorIsOneRowAndTheDefaultIsEmpty) {
  auto values = counting(5);
  EXPECT_EQ(Tensor::of(values.data(), {5}).rows(), 1);
  const Tensor none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.bytes(), 0U);
}

TEST(Tensor, SlicesOfRowsAndColumnsKeepTheStride) {
  auto values = counting(30);
  const Tensor t = Tensor::of(values.data(), {5, 6});
  const Tensor inner = t.slice_rows(1, 3).columns(2, 2);
  EXPECT_EQ(inner.rows(), 3);
  EXPECT_EQ(inner.cols(), 2);
  EXPECT_EQ(inner.row_stride(), 6);
  EXPECT_FALSE(inner.contiguous());
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 2; ++c) {
      EXPECT_EQ(inner.row<float>(r)[c], static_cast<float>((r + 1) * 6 + c + 2));
    }
  }
  EXPECT_EQ(inner.slice_rows(1, 2).row<float>(1)[0], 20.0F);
  EXPECT_EQ(inner.slice_rows(2, 1).row<float>(0)[1], 21.0F);
  EXPECT_EQ(t.slice_rows(5, 0).rows(), 0);
  EXPECT_EQ(t.columns(6, 0).cols(), 0);
}

TEST(Tensor, ReshapedAndAtSeeTheSameElements) {
  auto values = counting(24);
  const Tensor t = Tensor::of(values.data(), {2, 3, 4});
  EXPECT_EQ(t.reshaped({4, 6}).row<float>(3)[0], 18.0F);
  const Tensor second = t.at(1);
  EXPECT_EQ(second.rank(), 2);
  EXPECT_EQ(second.row<float>(0)[0], 12.0F);
  EXPECT_EQ(second.at(2).row<float>(0)[3], 23.0F);
}

TEST(Tensor, PartsAreVectors) {
  auto values = counting(24);
  const Tensor t = Tensor::of(values.data(), {4, 6});
  const Tensor part = t.part(5, 3);
  EXPECT_EQ(part.rank(), 1);
  EXPECT_EQ(part.numel(), 3);
  EXPECT_EQ(part.as<float>()[0], 5.0F);
  EXPECT_EQ(t.part(24, 0).numel(), 0);
  EXPECT_EQ(std::vector<int64_t>(t.shape().begin(), t.shape().end()), (std::vector<int64_t>{4, 6}));
}

TEST(Tensor, AZeroDecidesTheNumberOfElements) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(numel_of(std::vector<int64_t>{large, large, 0}), 0);
  EXPECT_EQ(numel_of(std::vector<int64_t>{}), 1);
  EXPECT_EQ(numel_of(std::vector<int64_t>{3, 4}), 12);
}

TEST(Tensor, WhatLeavesTheTensorIsABug) {
  auto values = counting(24);
  const Tensor t = Tensor::of(values.data(), {4, 6});
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(t.slice_rows(2, 3), Error);
  EXPECT_THROW(t.slice_rows(-1, 1), Error);
  EXPECT_THROW(t.slice_rows(most, 1), Error);  // the sum must not wrap
  EXPECT_THROW(t.columns(5, 2), Error);
  EXPECT_THROW(t.columns(1, most), Error);
  EXPECT_THROW(t.at(4), Error);
  EXPECT_THROW(t.at(-1), Error);
  EXPECT_THROW(t.reshaped({5, 5}), Error);
  EXPECT_THROW(t.reshaped({-4, -6}), Error);
  EXPECT_THROW(t.part(20, 5), Error);
  EXPECT_THROW(t.part(1, most), Error);
  EXPECT_THROW(t.columns(0, 3).part(0, 1), Error);
  EXPECT_THROW(t.columns(0, 3).reshaped({12}), Error);
  EXPECT_THROW(t.columns(0, 3).at(0), Error);
  EXPECT_THROW(t.as<int32_t>(), Error);
  EXPECT_THROW(Tensor(values.data(), DType::kF32, {}), Error);
  EXPECT_THROW(Tensor(values.data(), DType::kF32, {1, 1, 1, 1, 24}), Error);
}

}  // namespace
}  // namespace athanor
