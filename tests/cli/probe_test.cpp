// athanor probe through the program: the reference vectors, and batches that are refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using checkpoint::NamedTensor;
using checkpoint::StagedSafetensors;

// Integer tensors of a batch, written as I64.
struct BatchTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

void write_batch(const fs::path& path, std::vector<BatchTensor> tensors) {
  std::vector<NamedTensor> named;
  for (BatchTensor& tensor : tensors) {
    named.push_back(
        {tensor.name, tensor.shape,
         Tensor::of(tensor.values.data(), {static_cast<int64_t>(tensor.values.size())})});
  }
  StagedSafetensors(path, named).commit();
}

BatchTensor taken(const std::map<std::string, Values>& vectors, const std::string& name) {
  return {name, vectors.at(name).shape, vectors.at(name).integers};
}

class Probe : public testing::Test {
 protected:
  Outcome run(const fs::path& model, const fs::path& batch, bool gradients,
              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"probe",        model.string(), "--batch",
                                       batch.string(), "--out",        (scratch_ / "o").string()};
    if (gradients) arguments.insert(arguments.end(), {"--gradients", (scratch_ / "g").string()});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return athanor(arguments);
  }
  void refused(const fs::path& batch, int code, const std::string& part,
               const std::vector<std::string>& more = {}) const {
    expect_refusal(run(model(), batch, /*gradients=*/false, more), code, part);
    EXPECT_FALSE(fs::exists(scratch_ / "o"));
  }
  static fs::path model() { return *golden_folder("tiny"); }

  ScratchFolder scratch_;
};

struct Case {
  const char* folder;
  const char* vectors;
  const char* gradients;
};

/// The test's name in listings: an address would differ from run to run.
void PrintTo(  // NOLINT(readability-identifier-naming): GoogleTest looks for this name
    const Case& c, std::ostream* out) {
  *out << c.folder << '/' << c.vectors;
}

class ProbeVectors : public Probe, public testing::WithParamInterface<Case> {};

TEST_P(ProbeVectors, MeetTheReference) {
  const auto folder = golden_folder(GetParam().folder, GetParam().vectors);
  if (!folder) GTEST_SKIP() << golden_absent(GetParam().folder);
  const bool gradients = GetParam().gradients != nullptr;
  write_bytes(scratch_ / "o", "an older file");
  const Outcome outcome = run(*folder, *folder / GetParam().vectors, gradients);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto reference = read_vectors(*folder / GetParam().vectors);
  const auto mine = read_vectors(scratch_ / "o");
  EXPECT_GE(expect_outputs(mine, reference), 7);
  for (const auto& [name, values] : reference) {
    if (mine.contains(name)) {
      EXPECT_EQ(mine.at(name).shape, values.shape) << name;
    }
  }
  ASSERT_EQ(mine.at("loss").shape, std::vector<int64_t>{1});
  EXPECT_NEAR(mine.at("loss").reals[0], reference.at("loss").reals[0], kLossTolerance);
  if (!gradients) return;
  const auto grads = read_vectors(*folder / GetParam().gradients);
  const auto own = read_vectors(scratch_ / "g");
  expect_gradients(own, grads);
  for (const auto& [name, values] : grads) {
    if (own.contains(name)) {
      EXPECT_EQ(own.at(name).shape, values.shape) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, ProbeVectors,
    testing::Values(Case{"tiny", "vectors.safetensors", "grads.safetensors"},
                    Case{"odd", "vectors.safetensors", "grads.safetensors"},
                    Case{"odd", "vectors_t1.safetensors", "grads_t1.safetensors"},
                    Case{"odd", "vectors_t2.safetensors", nullptr},
                    Case{"packed", "vectors.safetensors", "grads.safetensors"},
                    Case{"packed", "vectors_edge.safetensors", "grads_edge.safetensors"},
                    Case{"native_bf16", "vectors.safetensors", nullptr},
                    Case{"sliding", "vectors.safetensors", "grads.safetensors"},
                    Case{"skip", "vectors.safetensors", "grads.safetensors"},
                    Case{"realhead", "vectors.safetensors", "grads.safetensors"}));

TEST_F(Probe, LabelsAloneAreShifted) {
  const auto vectors = read_vectors(model() / "vectors.safetensors");
  write_batch(scratch_ / "b", {taken(vectors, "input_ids"), taken(vectors, "labels")});
  const Outcome outcome = run(model(), scratch_ / "b", /*gradients=*/true);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NEAR(read_vectors(scratch_ / "o").at("loss").reals[0], vectors.at("loss").reals[0],
              kLossTolerance);
  expect_gradients(read_vectors(scratch_ / "g"), read_vectors(model() / "grads.safetensors"));
}

TEST_F(Probe, LabelsNeverCrossDocuments) {
  const auto folder = golden_folder("packed");
  const auto vectors = read_vectors(*folder / "vectors_edge.safetensors");
  BatchTensor labels = taken(vectors, "input_ids");
  labels.name = "labels";
  write_batch(scratch_ / "b", {taken(vectors, "input_ids"), labels, taken(vectors, "cu_seqlens")});
  const Outcome outcome = run(*folder, scratch_ / "b", /*gradients=*/true);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NEAR(read_vectors(scratch_ / "o").at("loss").reals[0], vectors.at("loss").reals[0],
              kLossTolerance);
  expect_gradients(read_vectors(scratch_ / "g"), read_vectors(*folder / "grads_edge.safetensors"));
}

TEST_F(Probe, TargetsWinOverLabels) {
  const auto vectors = read_vectors(model() / "vectors.safetensors");
  BatchTensor labels = taken(vectors, "labels");
  for (int64_t& label : labels.values) label = 5;
  write_batch(scratch_ / "b", {taken(vectors, "input_ids"), labels, taken(vectors, "targets")});
  ASSERT_EQ(run(model(), scratch_ / "b", /*gradients=*/false).code, 0);
  EXPECT_NEAR(read_vectors(scratch_ / "o").at("loss").reals[0], vectors.at("loss").reals[0],
              kLossTolerance);
}

TEST_F(Probe, WithoutTargetsThereIsNoLoss) {
  const auto vectors = read_vectors(model() / "vectors.safetensors");
  write_batch(scratch_ / "b", {taken(vectors, "input_ids")});
  ASSERT_EQ(run(model(), scratch_ / "b", /*gradients=*/false).code, 0);
  const auto mine = read_vectors(scratch_ / "o");
  EXPECT_FALSE(mine.contains("loss"));
  EXPECT_LE(max_difference(mine.at("logits").reals, vectors.at("logits").reals), kLogitsTolerance);
  fs::remove(scratch_ / "o");
  expect_refusal(run(model(), scratch_ / "b", /*gradients=*/true), 2, "targets or labels");
}

TEST_F(Probe, LeftPaddingIsLeftOut) {
  const auto folder = golden_folder("leftpad");
  if (!folder) GTEST_SKIP() << golden_absent("leftpad");
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Outcome outcome = run(*folder, *folder / "vectors.safetensors", /*gradients=*/false);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto mine = read_vectors(scratch_ / "o");
  const Values& mask = vectors.at("attention_mask");
  const Values& logits = mine.at("logits");
  ASSERT_EQ(logits.shape, vectors.at("logits").shape);
  const int64_t vocab = logits.shape[2];
  for (int64_t place = 0; place < mask.numel(); ++place) {
    const bool real = mask.integers[place] == 1;
    if (!real) {
      EXPECT_EQ(mine.at("layers.0.expert").integers[place], -1);
    }
    for (int64_t v = 0; v < vocab; ++v) {
      const double reference = real ? vectors.at("logits").reals[place * vocab + v] : 0.0;
      ASSERT_NEAR(logits.reals[place * vocab + v], reference, kLogitsTolerance) << place;
    }
  }
}

TEST_F(Probe, Bf16IsNearAndDiffers) {
  const Outcome outcome =
      run(model(), model() / "vectors.safetensors", /*gradients=*/false, {"--precision", "bf16"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const double loss = read_vectors(scratch_ / "o").at("loss").reals[0];
  const double reference = read_vectors(model() / "vectors.safetensors").at("loss").reals[0];
  // No further off than the reference's own bf16 run of these vectors (transformers 5.24.0 on
  // torch 2.13.0).
  EXPECT_NEAR(loss, reference, 0.0028);
  EXPECT_GT(std::abs(loss - reference), 1e-6);
}

TEST_F(Probe, IdsOutsideTheVocabularyAreUsageErrors) {
  for (const int64_t id : {int64_t{128}, int64_t{-1}, int64_t{1} << 40}) {
    write_batch(scratch_ / "b", {{"input_ids", {1, 3}, {5, 6, id}}});
    refused(scratch_ / "b", 2, fmt::format("input_ids[0, 2] is {}", id));
  }
  write_batch(scratch_ / "b", {{"input_ids", {1, 2}, {5, 6}}, {"targets", {1, 2}, {-100, 128}}});
  refused(scratch_ / "b", 2, "targets[0, 1] is 128");
  write_batch(scratch_ / "b", {{"input_ids", {1, 2}, {5, 6}}, {"labels", {1, 2}, {6, -7}}});
  refused(scratch_ / "b", 2, "labels[0, 1] is -7");
}

TEST_F(Probe, MalformedBatchesAreDataErrors) {
  const BatchTensor ids{"input_ids", {2, 3}, {5, 6, 7, 8, 9, 10}};
  const auto with = [&](BatchTensor tensor, const std::string& part) {
    write_batch(scratch_ / "b", {ids, std::move(tensor)});
    refused(scratch_ / "b", 3, part);
  };
  write_batch(scratch_ / "b", {{"ids", {1, 1}, {5}}});
  refused(scratch_ / "b", 3, "input_ids is missing");
  write_batch(scratch_ / "b", {{"input_ids", {3}, {5, 6, 7}}});
  refused(scratch_ / "b", 3, "[rows, tokens]");
  with({"targets", {3, 2}, {1, 2, 3, 4, 5, 6}}, "targets is I64[3, 2]");
  with({"labels", {2, 3}, {-100, -100, -100, -100, -100, -100}}, "no token with a target");
  with({"attention_mask", {2, 3}, {0, 1, 1, 1, 1, 0}}, "row 1 is not left padding");
  with({"attention_mask", {2, 3}, {0, 1, 1, 0, 0, 0}}, "row 1 is not left padding");
  with({"attention_mask", {2, 3}, {0, 1, 2, 1, 1, 1}}, "row 0 is not left padding");
  with({"cu_seqlens", {2}, {0, 5}}, "from 0 to the 6 tokens");
  with({"cu_seqlens", {2}, {0, 6}}, "crosses a row");
  with({"cu_seqlens", {5}, {0, 3, 3, 4, 6}}, "must rise");
  with({"cu_seqlens", {4}, {0, 9, 3, 6}}, "");
  std::vector<float> reals(6);
  StagedSafetensors(scratch_ / "b",
                    std::vector<NamedTensor>{{"input_ids", {2, 3}, Tensor::of(reals.data(), {6})}})
      .commit();
  refused(scratch_ / "b", 3, "input_ids is F32[2, 3]");
  write_bytes(scratch_ / "b", "no tensors here");
  refused(scratch_ / "b", 3, "safetensors");
  refused(scratch_ / "absent", 3, "absent");
}

TEST_F(Probe, PathsThatCannotBeWrittenAreRefusedFirst) {
  const fs::path batch = model() / "vectors.safetensors";
  const auto with_out = [&](const fs::path& out, const std::string& part) {
    expect_refusal(
        athanor({"probe", model().string(), "--batch", batch.string(), "--out", out.string()}), 2,
        part);
  };
  with_out(scratch_ / "no" / "o", "does not exist");
  with_out(scratch_.path(), "is a directory");
  with_out(batch, "replace the batch");
  with_out(fs::path(std::string(300, 'o')) / "o", "File name too long");
  const fs::path pipe = scratch_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  with_out(pipe, "a device or a pipe");
  EXPECT_TRUE(fs::is_fifo(pipe));
  const std::string same = (scratch_ / "o").string();
  expect_refusal(athanor({"probe", model().string(), "--batch", batch.string(), "--out", same,
                          "--gradients", same}),
                 2, "--gradients");
  expect_refusal(
      athanor({"probe", (scratch_ / "no").string(), "--batch", batch.string(), "--out", same}), 3,
      "no such model");
  expect_refusal(
      athanor({"probe", std::string(300, 'm'), "--batch", batch.string(), "--out", same}), 3,
      "File name too long");
}

}  // namespace
}  // namespace athanor::test
