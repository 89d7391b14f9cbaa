// The parts of tensors that ranks write.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tiny_parameters.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)

TEST(Slices, OutsideTheirTensorAreABug) {
  const ScratchFolder folder;
  OwnParameters parameters;
  parameters.count_up();
  CheckpointWriter writer(folder.path(), 4);
  const Tensor& norm = parameters->find("model.norm.weight").value;
  for (const int64_t begin : {-1, 1}) {
    const std::vector<TensorSlice> slices = {{"model.norm.weight", {3}, begin, norm}};
    EXPECT_THROW(write_rank(writer.temporary(), 0, slices), Error) << begin;
  }
}

TEST(Slices, MayComeInAnyOrderOfRanks) {
  const ScratchFolder folder;
  OwnParameters parameters;
  parameters.count_up();
  CheckpointWriter writer(folder.path(), 4);
  std::vector<TensorSlice> slices = slices_of(*parameters);
  const Tensor embedding = slices[0].data.reshaped({15});
  slices[0] = {"model.embed_tokens.weight", {5, 3}, 7, embedding.columns(7, 8)};
  const std::vector<TensorSlice> first = {
      {"model.embed_tokens.weight", {5, 3}, 0, embedding.columns(0, 7)}};
  const std::vector<RankRecord> records{write_rank(writer.temporary(), 0, slices),
                                        write_rank(writer.temporary(), 1, first)};
  const fs::path path =
      writer.commit({4, "seed = 1\n", "{}", "{}", "{}"}, parameters->config(), records, {});
  OwnParameters read;
  Checkpoint::open(path).load(*read);
  EXPECT_EQ(read.all(), parameters.all());
}

}  // namespace
}  // namespace athanor::test
