#include "infer/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

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

/// Keeps what is drawn, and for each text how it ended.
struct Drawn : GenerationSink {
  explicit Drawn(size_t texts) : ids(texts), endings(texts) {}
  bool token(size_t text, int32_t token) override {
    ids[text].push_back(token);
    return ids[text].size() < most;
  }
  void end(size_t text, Ending ending) override {
    EXPECT_FALSE(endings[text].has_value());
    endings[text] = ending;
  }
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::optional<Ending>> endings;
  size_t most = 1000;  // tokens of a text that are wanted
};

std::vector<int32_t> generate_one(Session& session, const Prompt& prompt) {
  Drawn drawn(1);
  generate(session, {&prompt, 1}, 1, drawn);
  EXPECT_TRUE(drawn.endings[0].has_value());
  return drawn.ids[0];
}

struct Loaded {
  ScratchFolder folder;
  ModelFiles files;
  Loaded(const model::ModelConfig& config, uint64_t seed)
      : files(open_model_files(test::write_model(folder / "model", config, {.seed = seed}))) {}
  Session session(std::span<const Prompt> prompts, int64_t at_once = 1,
                  ops::Precision precision = ops::Precision::kFp32) {
    return {files, precision, files.config().max_positions, generation_work(prompts, at_once)};
  }
  Session session(const Prompt& prompt, ops::Precision precision = ops::Precision::kFp32) {
    return session({&prompt, 1}, 1, precision);
  }
};

TEST(Generate, CachedGreedyDecodingEqualsTheFullForward) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Loaded loaded(random_config(seed), seed);
    Prompt prompt{model::random_ids(1 + static_cast<int64_t>(seed * 5 % 17), 258, seed), {}};
    prompt.options.sampling.temperature = 0;
    prompt.options.max_tokens = 20;
    prompt.options.chunk = 1 + static_cast<int64_t>(seed % 5);
    Session session = loaded.session(prompt);
    const std::vector<int32_t> ids = generate_one(session, prompt);

    std::vector<int32_t> all = prompt.ids;
    all.insert(all.end(), ids.begin(), ids.end());
    const auto logits = full_logits(session, all);
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<float>& row = logits[prompt.ids.size() - 1 + i];
      // The token drawn is the best up to the rounding by which the cached and the full pass
      // differ.
      EXPECT_NEAR(row[ids[i]], row[argmax(row)], 1e-4) << "seed " << seed << " token " << i;
    }
  }
}

TEST(Generate, ChunksOfThePromptDoNotMatter) {
  for (uint64_t seed = 21; seed <= 26; ++seed) {
    Loaded loaded(random_config(seed), seed);
    Prompt prompt{model::random_ids(23, 258, seed), {}};
    prompt.options.sampling.seed = seed;
    prompt.options.max_tokens = 12;
    std::vector<int32_t> whole;
    for (const int64_t chunk : {kPrefillChunk, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{23}}) {
      prompt.options.chunk = chunk;
      Session session = loaded.session(prompt);
      const std::vector<int32_t> ids = generate_one(session, prompt);
      if (whole.empty()) whole = ids;
      EXPECT_EQ(ids, whole) << "chunk " << chunk << " seed " << seed;
    }
  }
}

TEST(Generate, StopsAtTheStopTokensWhichItTells) {
  Loaded loaded(test::text_config(), 3);
  Prompt prompt{{1, 2, 3}, {}};
  prompt.options.max_tokens = 30;
  Session session = loaded.session(prompt);
  const std::vector<int32_t> all = generate_one(session, prompt);
  EXPECT_EQ(all.size(), 30u);

  prompt.options.stop_tokens = {all[20], all[11]};
  const auto first = std::find_if(all.begin(), all.end(),
                                  [&](int32_t id) { return id == all[11] || id == all[20]; });
  EXPECT_EQ(generate_one(session, prompt), (std::vector<int32_t>(all.begin(), first + 1)));
}

TEST(Generate, TheSameForOneAndTwoThreadsAndBothPrecisionsRun) {
  Loaded loaded(test::text_config(), 4);
  Prompt prompt{model::random_ids(9, 258, 4), {}};
  prompt.options.max_tokens = 20;
  for (const ops::Precision precision : {ops::Precision::kFp32, ops::Precision::kBf16}) {
    std::vector<int32_t> first;
    for (const char* threads : {"1", "2"}) {
      setenv("OMP_NUM_THREADS", threads, 1);
      Session session = loaded.session(prompt, precision);
      EXPECT_EQ(session.context().threads().count(), threads[0] - '0');
      const std::vector<int32_t> ids = generate_one(session, prompt);
      if (first.empty()) first = ids;
      EXPECT_EQ(ids, first);
    }
    unsetenv("OMP_NUM_THREADS");
  }
}

/// Prompts of all lengths, with options of all kinds.
std::vector<Prompt> random_prompts(size_t count, uint64_t seed) {
  std::vector<Prompt> prompts;
  RandomStream random(seed, stream_of("prompts"));
  for (size_t i = 0; i < count; ++i) {
    Prompt prompt{model::random_ids(1 + static_cast<int64_t>(random.below(30)), 258, seed + i), {}};
    prompt.options.max_tokens = 1 + static_cast<int64_t>(random.below(20));
    prompt.options.chunk = 1 + static_cast<int64_t>(random.below(40));
    prompt.options.sampling.seed = random.below(1000);
    prompt.options.sampling.temperature = random.below(3) == 0 ? 0.0 : 1.0;
    prompt.options.stop_tokens = {static_cast<int32_t>(random.below(258)),
                                  static_cast<int32_t>(random.below(258))};
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

TEST(Generate, EachTextOfABatchIsWhatItIsAlone) {
  for (uint64_t seed = 31; seed <= 36; ++seed) {
    Loaded loaded(random_config(seed), seed);
    const auto precision = seed % 2 == 0 ? ops::Precision::kFp32 : ops::Precision::kBf16;
    const std::vector<Prompt> prompts = random_prompts(9, seed);
    Drawn alone(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      Session session = loaded.session(prompts[i], precision);
      Drawn one(1);
      generate(session, {&prompts[i], 1}, 1, one);
      alone.ids[i] = one.ids[0];
      alone.endings[i] = one.endings[0];
    }
    for (const int64_t at_once : {1, 2, 4, 9}) {
      Session session = loaded.session(prompts, at_once, precision);
      Drawn drawn(prompts.size());
      generate(session, prompts, at_once, drawn);
      EXPECT_EQ(drawn.ids, alone.ids) << "seed " << seed << ", " << at_once << " at once";
      EXPECT_EQ(drawn.endings, alone.endings) << "seed " << seed;
    }
  }
}

TEST(Generate, ATextEndsWhereTheSinkWantsNoMore) {
  Loaded loaded(test::text_config(), 5);
  std::vector<Prompt> prompts(3, Prompt{{7, 8}, {}});
  for (size_t i = 0; i < prompts.size(); ++i)
    prompts[i].options.max_tokens = 4 + 4 * static_cast<int64_t>(i);
  Session session = loaded.session(prompts, 2);
  Drawn drawn(3);
  drawn.most = 6;
  generate(session, prompts, 2, drawn);
  EXPECT_EQ(drawn.ids[0].size(), 4u);
  EXPECT_EQ(drawn.endings[0], Ending::kLength);
  EXPECT_EQ(drawn.ids[1].size(), 6u);
  EXPECT_EQ(drawn.endings[1], Ending::kStopped);
  EXPECT_EQ(drawn.endings[2], Ending::kStopped);
}

TEST(Generate, FewerTextsAtOnceTakeLessMemory) {
  Loaded loaded(test::text_config(), 6);
  const std::vector<Prompt> prompts = random_prompts(20, 6);
  const auto bytes = [&](int64_t at_once) {
    return Session::memory_for(loaded.files, ops::Precision::kFp32, 64,
                               generation_work(prompts, at_once));
  };
  for (int64_t at_once = 2; at_once <= 20; ++at_once) EXPECT_LT(bytes(at_once - 1), bytes(at_once));
  EXPECT_EQ(prompts_at_once(loaded.files, ops::Precision::kFp32, 64, prompts, 8), 8);
  EXPECT_EQ(prompts_at_once(loaded.files, ops::Precision::kFp32, 64, prompts, 64), 20);
}

}  // namespace
}  // namespace athanor::infer
