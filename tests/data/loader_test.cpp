#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/mix.h"
#include "data/pack.h"
#include "testing.h"

namespace athanor::data {
namespace {

/// Documents of the given lengths; token i of the stream is i, so that places can be read off.
std::shared_ptr<const TokenSource> counting_source(const std::vector<uint64_t>& lengths) {
  std::vector<int32_t> ids;
  std::vector<uint64_t> ends;
  for (const uint64_t length : lengths) {
    for (uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(ids.size()));
    ends.push_back(ids.size());
  }
  return make_token_source(std::move(ids), std::move(ends));
}

struct Sample {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;
  std::vector<int32_t> begins;
  bool operator==(const Sample&) const = default;
};

Sample read(const TokenSource& source, uint64_t k, size_t length) {
  Sample sample{std::vector<int32_t>(length), std::vector<int32_t>(length), {}};
  read_sample(source, k, sample.ids, sample.targets, sample.begins);
  return sample;
}

Sample fetch(const Loader& loader, int phase, uint64_t index) {
  const auto length = static_cast<size_t>(loader.sequence_length(phase));
  Sample sample{std::vector<int32_t>(length), std::vector<int32_t>(length), {}};
  loader.fetch(phase, index, sample.ids, sample.targets, sample.begins);
  return sample;
}

TEST(Samples, TargetsStayInsideTheirDocument) {
  const auto source = counting_source({3, 1, 4, 5});
  const Sample first = read(*source, 0, 6);
  EXPECT_EQ(first.ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(first.targets, (std::vector<int32_t>{1, 2, -1, -1, 5, 6}));
  EXPECT_EQ(first.begins, (std::vector<int32_t>{0, 3, 4}));
  const Sample second = read(*source, 1, 6);  // begins inside a document
  EXPECT_EQ(second.ids, (std::vector<int32_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(second.targets, (std::vector<int32_t>{7, -1, 9, 10, 11, 12}));
  EXPECT_EQ(second.begins, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(samples_in(*source, 6), 2u);
  // A document that ends with the sample: its last token has no target, and none begins there.
  const Sample edge = read(*source, 1, 4);
  EXPECT_EQ(edge.targets, (std::vector<int32_t>{5, 6, 7, -1}));
  EXPECT_EQ(edge.begins, (std::vector<int32_t>{0}));
  const Sample single = read(*source, 3, 1);
  EXPECT_EQ(single.ids, std::vector<int32_t>{3});
  EXPECT_EQ(single.targets, std::vector<int32_t>{-1});
}

TEST(Samples, EveryTokenThatCanBeIsATargetOnce) {
  RandomStream random(2, 2);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> lengths(1 + random.below(20));
    for (uint64_t& length : lengths) length = 1 + random.below(9);
    const auto source = counting_source(lengths);
    const size_t length = 1 + random.below(12);
    std::map<int32_t, int> targets;
    const uint64_t samples = samples_in(*source, static_cast<int64_t>(length));
    for (uint64_t k = 0; k < samples; ++k) {
      const Sample sample = read(*source, k, length);
      for (size_t i = 0; i < length; ++i) {
        if (sample.targets[i] < 0) continue;
        ASSERT_EQ(sample.targets[i], sample.ids[i] + 1);
        ++targets[sample.targets[i]];
      }
    }
    for (uint64_t token = 1; token <= samples * length; ++token) {
      const uint64_t document = source->document_at(token);
      const int wanted = source->document_begin(document) == token ? 0 : 1;
      ASSERT_EQ(targets[static_cast<int32_t>(token)], wanted) << token;
    }
  }
}

TEST(Loader, ReadsEverySampleOnceAnEpochInANewOrder) {
  const auto source = counting_source(std::vector<uint64_t>(101, 7));
  const Loader loader({{{{source, 1.0}}, 10}}, 42);
  const uint64_t samples = samples_in(*source, 10);
  ASSERT_EQ(samples, 70u);
  std::vector<std::vector<uint64_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<uint64_t> seen;
    orders.emplace_back();
    for (uint64_t i = 0; i < samples; ++i) {
      const SamplePlace place = loader.place(0, epoch * samples + i);
      EXPECT_EQ(place.epoch, epoch);
      seen.insert(place.sample);
      orders.back().push_back(place.sample);
    }
    EXPECT_EQ(seen.size(), samples);
    EXPECT_EQ(*seen.rbegin(), samples - 1);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
  EXPECT_DOUBLE_EQ(loader.epochs(0, 0, 105), 1.5);
}

TEST(Loader, IsAFunctionOfSeedPhaseAndIndex) {
  const auto source = counting_source(std::vector<uint64_t>(50, 9));
  const PhaseData phase{{{source, 1.0}}, 8};
  const Loader one({phase, phase}, 1);
  const Loader again({phase, phase}, 1);
  const Loader other({phase, phase}, 2);
  int phase_differs = 0;
  int seed_differs = 0;
  for (uint64_t i = 99; i > 0; --i) {  // backwards: no history
    EXPECT_EQ(fetch(one, 0, i), fetch(again, 0, i));
    phase_differs += fetch(one, 0, i) != fetch(one, 1, i) ? 1 : 0;
    seed_differs += fetch(one, 0, i) != fetch(other, 0, i) ? 1 : 0;
  }
  EXPECT_GT(phase_differs, 80);
  EXPECT_GT(seed_differs, 80);
}

TEST(Loader, SourcesOfAPhaseHaveOrdersOfTheirOwn) {
  const auto source = counting_source(std::vector<uint64_t>(50, 9));
  const Loader loader({{{{source, 1.0}, {source, 1.0}}, 8}}, 1);
  std::vector<std::vector<uint64_t>> orders(2);
  for (uint64_t i = 0; i < 80; ++i) {
    const SamplePlace place = loader.place(0, i);
    orders[static_cast<size_t>(place.source)].push_back(place.sample);
  }
  ASSERT_EQ(orders[0].size(), orders[1].size());
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Loader, FetchesWhatThePlaceSaysFromManyThreads) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sample_corpus(40, 12);
  const auto documents = read_texts(texts);
  pack(*documents, *make_byte_tokenizer(), {.shard_tokens = 4000}, folder.path(), Threads(2));
  const std::shared_ptr<const TokenSource> packed = open_pack(folder.path());
  const auto counted = counting_source({300, 400});
  const Loader loader({{{{packed, 3}, {counted, 1}}, 64}}, 9);
  std::vector<Sample> samples(400);
  Threads(8).run(400, [&](int64_t i, int) {
    samples[static_cast<size_t>(i)] = fetch(loader, 0, static_cast<uint64_t>(i));
  });
  for (uint64_t i = 0; i < 400; ++i) {
    const SamplePlace place = loader.place(0, i);
    const TokenSource& source = place.source == 0 ? *packed : *counted;
    ASSERT_EQ(samples[i], read(source, place.sample, 64));
  }
}

TEST(Loader, RefusesMoreSequenceThanDataWithTheFigures) {
  const auto source = counting_source({10});
  EXPECT_NO_THROW(Loader({{{{source, 1.0}}, 9}}, 1));  // one sample: just enough
  expect_error(ExitCode::kUsage, {"more sequence than data", "10 tokens", "10", "11"},
               [&] { Loader({{{{source, 1.0}}, 10}}, 1); });
  expect_error(ExitCode::kUsage, {"sources"}, [&] { Loader({{{}, 4}}, 1); });
  expect_error(ExitCode::kUsage, {"weight"}, [&] { Loader({{{{source, 0.0}}, 4}}, 1); });
  expect_error(ExitCode::kUsage, {"sequence length"}, [&] { Loader({{{{source, 1.0}}, 0}}, 1); });
}

TEST(Loader, ADamagedBlockEndsAReadWithItsName) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {std::string(9000, 'a')};
  const auto documents = read_texts(texts);
  pack(*documents, *make_byte_tokenizer(), {}, folder.path(), Threads(1));
  const Loader loader({{{{open_pack(folder.path()), 1.0}}, 8000}}, 1);
  std::string content = read_file(folder / "shard-00000.bin");
  content[1000] ^= 16;
  folder.write("shard-00000.bin", content);
  expect_error(ExitCode::kData, {"shard-00000.bin", "block 0"}, [&] { fetch(loader, 0, 0); });
}

/// How far Tijdeman's rule lets a source's count stray from its share, and a little for rounding.
double tijdeman(size_t sources) {
  return sources == 1 ? 1e-9 : 1 - 1 / (2 * (static_cast<double>(sources) - 1)) + 1e-9;
}

TEST(Mix, SharesHoldToWithinOneSampleInEveryPrefix) {
  const std::vector<std::vector<double>> cases = {{1},
                                                  {1, 1},
                                                  {0.7, 0.3},
                                                  {0.98, 0.01, 0.01},
                                                  {5, 3, 2, 1, 1},
                                                  {0.333, 0.667},
                                                  {1, 1, 1, 1, 1, 1, 1},
                                                  {100, 1},
                                                  {0.5, 0.25, 0.125, 0.125},
                                                  {0.6, 0.3, 0.05, 0.05},
                                                  {3, 3, 3, 1, 1, 1},
                                                  {0.12345, 0.87655}};
  for (const auto& weights : cases) {
    const Mix mix(weights);
    double total = 0;
    for (const double weight : weights) total += weight;
    std::vector<uint64_t> counts(weights.size(), 0);
    const uint64_t n = std::min<uint64_t>(3 * mix.period() + 5, 300000);
    for (uint64_t i = 0; i < n; ++i) {
      const auto s = static_cast<size_t>(mix.source(i));
      ASSERT_EQ(mix.ordinal(i), counts[s]);
      ++counts[s];
      for (size_t k = 0; k < weights.size(); ++k) {
        const double share = weights[k] / total * static_cast<double>(i + 1);
        ASSERT_LE(std::abs(static_cast<double>(counts[k]) - share), tijdeman(weights.size()))
            << "prefix " << i + 1;
      }
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      EXPECT_EQ(mix.count(static_cast<int>(k), n), counts[k]);
    }
  }
}

TEST(Mix, RandomWeightsHoldTheirShares) {
  RandomStream random(6, 6);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> weights(2 + random.below(8));
    for (double& weight : weights) weight = static_cast<double>(1 + random.below(60));
    const Mix mix(weights);
    double total = 0;
    for (const double weight : weights) total += weight;
    std::vector<uint64_t> counts(weights.size(), 0);
    for (uint64_t i = 0; i < mix.period(); ++i) {
      ++counts[static_cast<size_t>(mix.source(i))];
      for (size_t k = 0; k < weights.size(); ++k) {
        ASSERT_LE(std::abs(static_cast<double>(counts[k]) -
                           weights[k] / total * static_cast<double>(i + 1)),
                  tijdeman(weights.size()));
      }
    }
  }
}

TEST(Mix, OddWeightsAreRoundedToOnePartInAMillion) {
  const std::vector<double> weights = {std::sqrt(2.0), std::sqrt(3.0), 1e-9};
  const Mix mix(weights);
  const uint64_t n = 2000000;
  const double total = weights[0] + weights[1] + weights[2];
  const double most = tijdeman(3) + static_cast<double>(n) / (1 << 20);
  EXPECT_NEAR(static_cast<double>(mix.count(0, n)), weights[0] / total * n, most);
  EXPECT_NEAR(static_cast<double>(mix.count(1, n)), weights[1] / total * n, most);
  EXPECT_GE(mix.count(2, n), 1u);
}

TEST(Mix, RefusesWhatIsNoWeight) {
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    const std::vector<double> weights = {1.0, bad};
    expect_error(ExitCode::kUsage, {"weight"}, [&] { Mix{weights}; });
  }
}

}  // namespace
}  // namespace athanor::data
