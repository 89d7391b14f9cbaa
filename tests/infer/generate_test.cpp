#include "infer/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "infer/tiny_model.h"

namespace athanor::infer {
namespace {

using test::ScratchFolder;

/// Logits of every token of `ids` by one uncached pass, [tokens][V].
std::vector<std::vector<float>> full_logits(Session& session, std::vector<int32_t> ids) {
  std::vector<std::vector<float>> logits;
  const auto count = static_cast<int64_t>(ids.size());
  const std::array<int64_t, 2> begins = {0, count};
  const Work work = [&](ops::Context& ctx, model::Model& model, Arena& activations) {
    model::Statistics statistics;
    model.forward(ctx, activations, {Tensor::of(ids.data(), {count}), {}, begins}, {}, statistics,
                  /*want_logits=*/true, [&](std::string_view name, const Tensor& value) {
                    if (name != "logits" || ctx.planning()) return;
                    for (int64_t t = 0; t < value.rows(); ++t) {
                      const float* row = value.row<float>(t);
                      logits.emplace_back(row, row + value.cols());
                    }
                  });
  };
  session.make_room(work);
  work(session.context(), session.model(), session.activations());
  return logits;
}

int32_t argmax(const std::vector<float>& values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

/// Random small geometries: heads, head sizes, windows and expert counts vary, odd ones too.
model::ModelConfig random_config(uint64_t seed) {
  RandomStream random(seed, stream_of("geometry"));
  model::ModelConfig config = test::text_config();
  config.layers = 1 + static_cast<int64_t>(random.below(4));
  config.hidden = 3 + static_cast<int64_t>(random.below(30));
  const auto keys = 1 + static_cast<int64_t>(random.below(3));
  config.heads = {keys * (1 + static_cast<int64_t>(random.below(3))), keys,
                  2 * (1 + static_cast<int64_t>(random.below(8)))};
  config.partial_rotary = 1.0;
  config.experts = 1 + static_cast<int64_t>(random.below(5));
  config.expert_inner = 1 + static_cast<int64_t>(random.below(20));
  config.router = 1 + static_cast<int64_t>(random.below(12));
  config.vocab = 258 + static_cast<int64_t>(random.below(20));
  config.sliding_window = 1 + static_cast<int64_t>(random.below(9));
  config.layer_kinds.clear();
  for (int64_t l = 0; l < config.layers; ++l) {
    config.layer_kinds.push_back(random.below(2) == 0 ? model::LayerKind::kFull
                                                      : model::LayerKind::kSliding);
  }
  return config;
}

struct Loaded {
  ScratchFolder folder;
  ModelFiles files;
  Loaded(const model::ModelConfig& config, uint64_t seed)
      : files(open_model_files(test::write_model(folder / "model", config, {.seed = seed}))) {}
  Session session(const Work& work, ops::Precision precision = ops::Precision::kFp32) {
    return {files, precision, files.config().max_positions, work};
  }
};

TEST(Generate, CachedGreedyDecodingEqualsTheFullForward) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Loaded loaded(random_config(seed), seed);
    const std::vector<int32_t> prompt =
        model::random_ids(1 + static_cast<int64_t>(seed * 5 % 17), 258, seed);
    GenerationOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = 20;
    options.chunk = 1 + static_cast<int64_t>(seed % 5);
    const auto length = static_cast<int64_t>(prompt.size());
    Session session = loaded.session(generation_work(length, options));
    const std::vector<int32_t> ids = generate(session, prompt, options);

    std::vector<int32_t> all = prompt;
    all.insert(all.end(), ids.begin(), ids.end());
    const auto logits = full_logits(session, all);
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<float>& row = logits[prompt.size() - 1 + i];
      // The token drawn is the best up to the rounding by which the cached and the full pass
      // differ.
      EXPECT_NEAR(row[ids[i]], row[argmax(row)], 1e-4) << "seed " << seed << " token " << i;
    }
  }
}

TEST(Generate, ChunksOfThePromptDoNotMatter) {
  for (uint64_t seed = 21; seed <= 26; ++seed) {
    Loaded loaded(random_config(seed), seed);
    const std::vector<int32_t> prompt = model::random_ids(23, 258, seed);
    GenerationOptions options;
    options.sampling.seed = seed;
    options.max_tokens = 12;
    std::vector<int32_t> whole;
    for (const int64_t chunk : {kPrefillChunk, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{23}}) {
      options.chunk = chunk;
      Session session = loaded.session(generation_work(23, options));
      const std::vector<int32_t> ids = generate(session, prompt, options);
      if (whole.empty()) whole = ids;
      EXPECT_EQ(ids, whole) << "chunk " << chunk << " seed " << seed;
    }
  }
}

TEST(Generate, StopsAtTheStopTokenWhichItReturns) {
  Loaded loaded(test::text_config(), 3);
  const std::vector<int32_t> prompt = {1, 2, 3};
  GenerationOptions options;
  options.max_tokens = 30;
  Session session = loaded.session(generation_work(3, options));
  std::vector<int32_t> told;
  const std::vector<int32_t> all =
      generate(session, prompt, options, [&](int32_t id) { told.push_back(id); });
  EXPECT_EQ(all.size(), 30u);
  EXPECT_EQ(told, all);

  options.stop_token = all[11];
  const auto first = std::find(all.begin(), all.end(), all[11]);
  EXPECT_EQ(generate(session, prompt, options), (std::vector<int32_t>(all.begin(), first + 1)));
}

TEST(Generate, TheSameForOneAndTwoThreadsAndBothPrecisionsRun) {
  Loaded loaded(test::text_config(), 4);
  const std::vector<int32_t> prompt = model::random_ids(9, 258, 4);
  GenerationOptions options;
  options.max_tokens = 20;
  for (const ops::Precision precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    std::vector<int32_t> first;
    for (const char* threads : {"1", "2"}) {
      setenv("OMP_NUM_THREADS", threads, 1);
      Session session = loaded.session(generation_work(9, options), precision);
      EXPECT_EQ(session.context().threads().count(), threads[0] - '0');
      const std::vector<int32_t> ids = generate(session, prompt, options);
      if (first.empty()) first = ids;
      EXPECT_EQ(ids, first);
    }
    unsetenv("OMP_NUM_THREADS");
  }
}

}  // namespace
}  // namespace athanor::infer
