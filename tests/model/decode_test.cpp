// Decoding: chunks of any size, several sequences at once, sliding caches, and no leak between
// packed documents.
#include <gtest/gtest.h>

#include "lab.h"

namespace athanor::model {
namespace {

constexpr int64_t kVocab = 11;

struct Seen {
  std::map<std::string, std::vector<double>> values;
  Observer observer() {
    return
        [this](std::string_view name, const Tensor& t) { values[std::string(name)] = copy_of(t); };
  }
};

/// Logits of every token of `ids` run alone, uncached.
std::vector<double> full_logits(Lab& lab, const std::vector<int32_t>& ids) {
  const std::vector<int64_t> begins = {0, static_cast<int64_t>(ids.size())};
  Seen seen;
  Statistics statistics;
  lab.model->forward(lab.ctx, lab.activations, {lab.ints(ids), {}, begins}, {}, statistics, true,
                     seen.observer());
  return seen.values.at("logits");
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance) << what << " element " << i;
}

TEST(Decode, ChunksOfAnySizeEqualTheFullForward) {
  Lab lab(small_config(), ops::Precision::kFp64, 1);
  const auto ids = random_ids(17, kVocab, 2);
  const auto expected = full_logits(lab, ids);
  for (const std::vector<int64_t>& chunks :
       std::vector<std::vector<int64_t>>{{17},
                                         {10, 7},
                                         {3, 2, 5, 7},
                                         {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                         {16, 1}}) {
    SequenceState state = allocate_state(lab.batches, lab.config, ops::Precision::kFp64, 17, 17);
    SequenceState* states[] = {&state};
    int64_t at = 0;
    for (const int64_t n : chunks) {
      const Tensor part = lab.ints({ids.begin() + at, ids.begin() + at + n});
      const std::vector<int64_t> begins = {0, n};
      const Tensor logits = lab.batches.tensor(DType::kF64, {1, kVocab});
      const Tensor all = lab.batches.tensor(DType::kF64, {n, kVocab});
      lab.model->extend(lab.ctx, lab.activations, part, begins, states, logits, all);
      expect_near(copy_of(all),
                  {expected.begin() + at * kVocab, expected.begin() + (at + n) * kVocab}, 1e-12,
                  "all logits");
      at += n;
      expect_near(copy_of(logits),
                  {expected.begin() + (at - 1) * kVocab, expected.begin() + at * kVocab}, 1e-12,
                  "last logits");
      EXPECT_EQ(state.position, at);
      EXPECT_EQ(state.layers[0].count, at);                            // full
      EXPECT_EQ(state.layers[1].count, std::min<int64_t>(at, 3 - 1));  // window 3
    }
  }
}

TEST(Decode, SequencesOfDifferentLengthsAtOnce) {
  Lab lab(small_config(), ops::Precision::kFp64, 3);
  std::vector<std::vector<int32_t>> texts = {random_ids(9, kVocab, 4), random_ids(12, kVocab, 5),
                                             random_ids(4, kVocab, 6)};
  std::vector<SequenceState> states;
  for (int i = 0; i < 3; ++i) {
    states.push_back(allocate_state(lab.batches, lab.config, ops::Precision::kFp64, 12, 5));
  }
  std::vector<std::vector<double>> expected;
  for (const auto& text : texts) expected.push_back(full_logits(lab, text));
  // Tokens that each sequence takes in each call; 0: not in that call.
  for (const std::vector<int64_t>& call :
       std::vector<std::vector<int64_t>>{{5, 1, 0}, {1, 5, 3}, {0, 1, 1}, {3, 5, 0}}) {
    std::vector<int32_t> ids;
    std::vector<int64_t> begins = {0};
    std::vector<SequenceState*> active;
    std::vector<size_t> who;
    for (size_t i = 0; i < 3; ++i) {
      if (call[i] == 0) continue;
      const auto from = texts[i].begin() + states[i].position;
      ids.insert(ids.end(), from, from + call[i]);
      begins.push_back(static_cast<int64_t>(ids.size()));
      active.push_back(&states[i]);
      who.push_back(i);
    }
    const auto segments = static_cast<int64_t>(active.size());
    const Tensor logits = lab.batches.tensor(DType::kF64, {segments, kVocab});
    lab.model->extend(lab.ctx, lab.activations, lab.ints(ids), begins, active, logits);
    for (int64_t s = 0; s < segments; ++s) {
      const auto& e = expected[who[s]];
      const int64_t end = active[s]->position * kVocab;
      expect_near(copy_of(logits.slice_rows(s, 1)), {e.begin() + end - kVocab, e.begin() + end},
                  1e-12, "sequence " + std::to_string(who[s]));
    }
  }
}

TEST(Decode, TheCachedStateIsWhatTheForwardComputed) {
  Lab lab(small_config(), ops::Precision::kFp64, 7);
  const auto ids = random_ids(9, kVocab, 8);
  const std::vector<int64_t> begins = {0, 9};
  SequenceState whole = allocate_state(lab.batches, lab.config, ops::Precision::kFp64, 9, 9);
  SequenceState pieces = allocate_state(lab.batches, lab.config, ops::Precision::kFp64, 9, 1);
  const Tensor logits = lab.batches.tensor(DType::kF64, {1, kVocab});
  SequenceState* one[] = {&whole};
  lab.model->extend(lab.ctx, lab.activations, lab.ints(ids), begins, one, logits);
  const std::vector<int64_t> single = {0, 1};
  SequenceState* other[] = {&pieces};
  for (const int32_t id : ids) {
    lab.model->extend(lab.ctx, lab.activations, lab.ints({id}), single, other, logits);
  }
  for (size_t l = 0; l < 2; ++l) {
    const LayerState &a = whole.layers[l], &b = pieces.layers[l];
    ASSERT_EQ(a.count, b.count);
    expect_near(copy_of(a.keys.slice_rows(0, a.count)), copy_of(b.keys.slice_rows(0, b.count)),
                1e-12, "keys");
    expect_near(copy_of(a.values.slice_rows(0, a.count)), copy_of(b.values.slice_rows(0, b.count)),
                1e-12, "values");
    expect_near(copy_of(a.convolution), copy_of(b.convolution), 1e-12, "convolution");
    expect_near(copy_of(a.delayed_value), copy_of(b.delayed_value), 1e-12, "delayed value");
  }
  // A state that was reset is a new one. (Three tokens: what is left of the convolution reaches the
  // keys, which a lone token does not choose between.)
  const auto expected = full_logits(lab, {4, 7, 2});
  const std::vector<int64_t> three = {0, 3};
  const Tensor every = lab.batches.tensor(DType::kF64, {3, kVocab});
  SequenceState roomy = allocate_state(lab.batches, lab.config, ops::Precision::kFp64, 9, 9);
  SequenceState* again[] = {&roomy};
  lab.model->extend(lab.ctx, lab.activations, lab.ints(ids), begins, again, logits);
  reset(roomy);
  lab.model->extend(lab.ctx, lab.activations, lab.ints({4, 7, 2}), three, again, {}, every);
  expect_near(copy_of(every), expected, 1e-12, "after reset");
}

TEST(Decode, RefusesACacheThatIsTooSmall) {
  Lab lab(small_config(), ops::Precision::kFp32, 9);
  SequenceState state = allocate_state(lab.batches, lab.config, ops::Precision::kFp32, 4, 2);
  SequenceState* states[] = {&state};
  const Tensor logits = lab.batches.tensor(DType::kF32, {1, kVocab});
  const std::vector<int64_t> begins = {0, 5};
  EXPECT_THROW(lab.model->extend(lab.ctx, lab.activations, lab.ints({1, 2, 3, 4, 5}), begins,
                                 states, logits),
               Error);
  EXPECT_EQ(state.position, 0);
}

TEST(Packing, DocumentsDoNotLeak) {
  Lab lab(small_config(), ops::Precision::kFp64, 10);
  const std::vector<int64_t> lengths = {1, 6, 2, 5};
  std::vector<int32_t> ids, targets;
  std::vector<int64_t> begins = {0};
  std::vector<double> separate_gradients(lab.parameters->numel(), 0.0);
  std::map<std::string, std::vector<double>> separate;
  for (size_t d = 0; d < lengths.size(); ++d) {
    const auto own_ids = random_ids(lengths[d], kVocab, 20 + d);
    const auto own_targets = random_ids(lengths[d], kVocab, 30 + d);
    const std::vector<int64_t> alone = {0, lengths[d]};
    Seen seen;
    lab.train({lab.ints(own_ids), lab.ints(own_targets), alone}, 1.0, seen.observer());
    for (const auto& [name, values] : seen.values) {
      separate[name].insert(separate[name].end(), values.begin(), values.end());
    }
    for (size_t i = 0; i < separate_gradients.size(); ++i) {
      separate_gradients[i] += get(lab.gradients, static_cast<int64_t>(i));
    }
    ids.insert(ids.end(), own_ids.begin(), own_ids.end());
    targets.insert(targets.end(), own_targets.begin(), own_targets.end());
    begins.push_back(static_cast<int64_t>(ids.size()));
  }
  Seen packed;
  lab.train({lab.ints(ids), lab.ints(targets), begins}, 1.0, packed.observer());
  EXPECT_EQ(packed.values.size(), separate.size());
  for (const auto& [name, values] : separate) {
    expect_near(packed.values.at(name), values, 1e-12, name);
  }
  expect_near(copy_of(lab.gradients), separate_gradients, 1e-11, "gradients");
}

}  // namespace
}  // namespace athanor::model
