#include "eval/probe_batch.h"

#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "support/scratch.h"

namespace athanor::eval {
namespace {

using checkpoint::NamedTensor;
using test::expect_error;

class ProbeBatchTest : public testing::Test {
 protected:
  /// Adds a tensor of the batch file.
  void add(const char* name, std::vector<int64_t> shape, std::vector<int64_t> values) {
    values_.push_back(std::move(values));
    const auto count = static_cast<int64_t>(values_.back().size());
    tensors_.push_back({name, std::move(shape), Tensor::of(values_.back().data(), {count})});
  }
  ProbeBatch read() {
    checkpoint::StagedSafetensors(folder_ / "batch.safetensors", tensors_).commit();
    return read_probe_batch(folder_ / "batch.safetensors", 100);
  }

  test::ScratchFolder folder_;
  std::vector<std::vector<int64_t>> values_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(ProbeBatchTest, LabelsAreShiftedInsideEachDocument) {
  add("input_ids", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  add("labels", {2, 4}, {11, 12, 13, 14, 15, -100, 17, 18});
  add("cu_seqlens", {4}, {0, 3, 4, 8});
  const ProbeBatch batch = read();
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{12, 13, -1, -1, -1, 17, 18, -1}));
  EXPECT_EQ(batch.target_count, 4);
  EXPECT_EQ(batch.begins, (std::vector<int64_t>{0, 3, 4, 8}));
  EXPECT_EQ(batch.longest(), 4);
}

TEST_F(ProbeBatchTest, TargetsAreTakenAsTheyAre) {
  add("input_ids", {1, 3}, {1, 2, 3});
  add("targets", {1, 3}, {21, -100, 23});
  add("labels", {1, 3}, {11, 12, 13});
  const ProbeBatch batch = read();
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{21, -1, 23}));
  EXPECT_EQ(batch.target_count, 2);
}

TEST_F(ProbeBatchTest, PaddingOnTheLeftIsNoToken) {
  add("input_ids", {2, 3}, {0, 2, 3, 4, 5, 6});
  add("attention_mask", {2, 3}, {0, 1, 1, 1, 1, 1});
  add("labels", {2, 3}, {11, 12, 13, 14, 15, 16});
  const ProbeBatch batch = read();
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(batch.places, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.begins, (std::vector<int64_t>{0, 2, 5}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{13, -1, 15, 16, -1}));
}

TEST_F(ProbeBatchTest, ADocumentAcrossRowsIsRefused) {
  add("input_ids", {2, 3}, {1, 2, 3, 4, 5, 6});
  add("cu_seqlens", {3}, {0, 4, 6});
  expect_error(ExitCode::kData, {"batch.safetensors", "document 0", "crosses a row"},
               [&] { read(); });
}

}  // namespace
}  // namespace athanor::eval
