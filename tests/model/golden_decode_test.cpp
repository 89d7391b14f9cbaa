// Cached decoding and left padding against the reference vectors (golden/README.md).
#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"
#include "support/test_model.h"

namespace athanor::test {
namespace {

std::vector<double> row(const Values& values, int64_t index, int64_t width) {
  const auto begin = values.reals.begin() + index * width;
  return {begin, begin + width};
}

int64_t argmax(const std::vector<double>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

class GoldenDecode : public testing::TestWithParam<const char*> {
 protected:
  void compare_state(const model::SequenceState& state, int64_t b,
                     const std::map<std::string, Values>& vectors) const;
};

// keys and values [B, Hk, n, d], conv [B, C, 2], delayed_value [B, Hk·d/2] of row b.
void GoldenDecode::compare_state(const model::SequenceState& state, int64_t b,
                                 const std::map<std::string, Values>& vectors) const {
  for (size_t l = 0; l < state.layers.size(); ++l) {
    const model::LayerState& layer = state.layers[l];
    const std::string prefix = "after_prompt.layers." + std::to_string(l) + ".";
    const auto cached = [&](const char* name, const Tensor& mine) {
      const Values& reference = vectors.at(prefix + name);
      const int64_t heads = reference.shape[1], n = reference.shape[2], d = reference.shape[3];
      const Values all = values_of(mine);
      ASSERT_GE(layer.count, n);
      std::vector<double> own, expected;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < d; ++j) {
            // The last n rows that are valid: a sliding layer may keep more than it can see.
            own.push_back(all.reals[((layer.count - n + i) * heads + h) * d + j]);
            expected.push_back(reference.reals[((b * heads + h) * n + i) * d + j]);
          }
        }
      }
      EXPECT_LE(relative_difference(own, expected), kActivationTolerance) << prefix << name;
    };
    cached("keys", layer.keys);
    cached("values", layer.values);

    const Values& conv = vectors.at(prefix + "conv");
    const int64_t channels = conv.shape[1];
    const Values mine = values_of(layer.convolution);
    std::vector<double> own, expected;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < 2; ++tap) {
        own.push_back(mine.reals[tap * channels + c]);
        expected.push_back(conv.reals[(b * channels + c) * 2 + tap]);
      }
    }
    EXPECT_LE(relative_difference(own, expected), kActivationTolerance) << prefix << "conv";

    const Values& delayed = vectors.at(prefix + "delayed_value");
    EXPECT_LE(relative_difference(values_of(layer.delayed_value).reals,
                                  row(delayed, b, delayed.shape[1])),
              kActivationTolerance)
        << prefix << "delayed_value";
  }
}

TEST_P(GoldenDecode, StatesAndStepsMeetTheReference) {
  const auto folder = golden_folder(GetParam());
  if (!folder) GTEST_SKIP() << golden_absent(GetParam());
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Values& prompt = vectors.at("prompt_ids");
  const Values& generated = vectors.at("generated_ids");
  const Values& step_logits = vectors.at("step_logits");
  const int64_t rows = prompt.shape[0], length = prompt.shape[1], steps = generated.shape[1];

  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const int64_t vocab = model.config().vocab;
  std::vector<model::SequenceState*> states;
  for (int64_t b = 0; b < rows; ++b) states.push_back(&model.new_state(length + steps, length));

  TokenBatch batch = batch_of(prompt, nullptr);
  Values logits = model.extend(batch, states);
  for (int64_t b = 0; b < rows; ++b) compare_state(*states[b], b, vectors);
  for (int64_t k = 0; k <= steps; ++k) {
    const int64_t per_row = k == 0 ? length : 1;
    TokenBatch next;
    next.begins = {0};
    for (int64_t b = 0; b < rows; ++b) {
      const std::vector<double> mine = row(logits, (b + 1) * per_row - 1, vocab);
      EXPECT_LE(max_difference(mine, row(step_logits, b * (steps + 1) + k, vocab)),
                kLogitsTolerance)
          << "row " << b << " after " << k << " tokens";
      if (k < steps) {
        EXPECT_EQ(argmax(mine), generated.integers[b * steps + k]) << "row " << b << " step " << k;
        next.ids.push_back(static_cast<int32_t>(generated.integers[b * steps + k]));
        next.begins.push_back(b + 1);
      }
    }
    if (k < steps) logits = model.extend(next, states);
  }
}

TEST_P(GoldenDecode, OneUncachedPassMeetsTheReference) {
  const auto folder = golden_folder(GetParam());
  if (!folder) GTEST_SKIP() << golden_absent(GetParam());
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const auto seen = model.forward(batch_of(vectors.at("full_ids"), nullptr));
  EXPECT_LE(max_difference(seen.at("logits").reals, vectors.at("full_logits").reals),
            kLogitsTolerance);
  for (int64_t l = 0; l < model.config().layers; ++l) {
    const std::string prefix = "layers." + std::to_string(l) + ".";
    EXPECT_EQ(seen.at(prefix + "expert").integers, vectors.at(prefix + "expert").integers);
    EXPECT_LE(relative_difference(seen.at(prefix + "router_margin").reals,
                                  vectors.at(prefix + "router_margin").reals),
              kActivationTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, GoldenDecode, testing::Values("decode", "decode_sliding"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// A left-padded row is the segment of its real tokens.
struct PaddedRows {
  TokenBatch batch;
  std::vector<int64_t> lengths;
};

PaddedRows real_tokens(const Values& ids, const Values& mask) {
  PaddedRows rows;
  rows.batch.begins = {0};
  const int64_t length = ids.shape[1];
  for (int64_t b = 0; b < ids.shape[0]; ++b) {
    for (int64_t t = 0; t < length; ++t) {
      if (mask.integers[b * length + t] == 0) continue;
      rows.batch.ids.push_back(static_cast<int32_t>(ids.integers[b * length + t]));
    }
    const auto end = static_cast<int64_t>(rows.batch.ids.size());
    rows.lengths.push_back(end - rows.batch.begins.back());
    rows.batch.begins.push_back(end);
  }
  return rows;
}

TEST(GoldenLeftPad, RealTokensMeetTheReference) {
  const auto folder = golden_folder("leftpad");
  if (!folder) GTEST_SKIP() << golden_absent("leftpad");
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Values& ids = vectors.at("input_ids");
  const PaddedRows rows = real_tokens(ids, vectors.at("attention_mask"));
  EXPECT_EQ(rows.lengths, (std::vector<int64_t>{21, 14, 6}));
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const Values logits = model.forward(rows.batch).at("logits");
  const int64_t vocab = model.config().vocab, length = ids.shape[1];
  for (int64_t b = 0; b < ids.shape[0]; ++b) {
    const Values& alone = vectors.at("logits_unpadded." + std::to_string(b));
    for (int64_t t = 0; t < rows.lengths[b]; ++t) {
      const std::vector<double> mine = row(logits, rows.batch.begins[b] + t, vocab);
      EXPECT_LE(max_difference(mine, row(alone, t, vocab)), kLogitsTolerance);
      const int64_t padded = (b + 1) * length - rows.lengths[b] + t;
      EXPECT_LE(max_difference(mine, row(vectors.at("logits"), padded, vocab)), kLogitsTolerance);
    }
  }
}

TEST(GoldenLeftPad, GreedyStepsMeetTheReference) {
  const auto folder = golden_folder("leftpad");
  if (!folder) GTEST_SKIP() << golden_absent("leftpad");
  const auto vectors = read_vectors(*folder / "vectors.safetensors");
  const Values& generated = vectors.at("decode.generated_ids");
  const Values& expected = vectors.at("decode.step_logits");
  const PaddedRows rows = real_tokens(vectors.at("input_ids"), vectors.at("attention_mask"));
  const int64_t steps = generated.shape[1];
  TestModel model(*folder, ops::Precision::kFp32, /*training=*/false);
  const int64_t vocab = model.config().vocab;
  std::vector<model::SequenceState*> states;
  for (const int64_t length : rows.lengths) {
    states.push_back(&model.new_state(length + steps, length));
  }
  TokenBatch batch = rows.batch;
  for (int64_t k = 0; k < steps; ++k) {
    const Values logits = model.extend(batch, states);
    TokenBatch next;
    next.begins = {0};
    for (size_t b = 0; b < states.size(); ++b) {
      const std::vector<double> mine = row(logits, batch.begins[b + 1] - 1, vocab);
      const auto place = static_cast<int64_t>(b) * steps + k;
      EXPECT_LE(max_difference(mine, row(expected, place, vocab)), kLogitsTolerance)
          << "row " << b << " step " << k;
      EXPECT_EQ(argmax(mine), generated.integers[place]) << "row " << b << " step " << k;
      next.ids.push_back(static_cast<int32_t>(generated.integers[place]));
      next.begins.push_back(static_cast<int64_t>(b) + 1);
    }
    batch = next;
  }
}

}  // namespace
}  // namespace athanor::test
