#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "base/error.h"

namespace athanor {
namespace {

TEST(Random, PhiloxMeetsTheVectorsOfItsAuthors) {
  // Random123's kat_vectors, philox4x32 of ten rounds: counter words c0..c3, then the key.
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(philox(ones, ones, ones),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, AStreamGoesOnFromItsCounter) {
  RandomStream whole(7, 3);
  for (int i = 0; i < 5; ++i) whole.next();
  RandomStream resumed(7, 3, whole.counter());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(resumed.next(), whole.next());
}

TEST(Random, SeedsAndStreamsAreApart) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (uint64_t stream = 0; stream < 30; ++stream) seen.insert(RandomStream(seed, stream).next());
  }
  EXPECT_EQ(seen.size(), 900U);
}

TEST(Random, UniformsFillTheUnitInterval) {
  RandomStream random(1, 2);
  constexpr int kDraws = 100000;
  std::array<int, 10> bins{};
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * 10)];
  }
  for (const int count : bins)
    EXPECT_NEAR(count, kDraws / 10, 500);  // five standard deviations: 474
}

TEST(Random, NormalsHaveTheMomentsOfANormal) {
  RandomStream random(1, 3);
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.012);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.016);
  EXPECT_NEAR(fourths / kDraws, 3.0, 0.11);
}

TEST(Random, BelowIsUniformAndStaysBelow) {
  RandomStream random(1, 4);
  std::array<int, 3> bins{};
  for (int i = 0; i < 30000; ++i) ++bins[random.below(3)];
  for (const int count : bins) EXPECT_NEAR(count, 10000, 410);
  EXPECT_EQ(random.below(1), 0U);
  const uint64_t large = (uint64_t{1} << 63) + 1;  // rejection happens half of the time
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(large), large);
  const uint64_t thirds = uint64_t{3}
                          << 62;  // x mod n alone would put half of the draws into the first third
  int first_third = 0;
  for (int i = 0; i < 10000; ++i) first_third += random.below(thirds) < thirds / 3 ? 1 : 0;
  EXPECT_NEAR(first_third, 3333, 240);
  EXPECT_THROW(random.below(0), Error);
}

TEST(Random, NamesAndIndicesGiveDistinctStreams) {
  std::set<uint64_t> seen;
  for (const char* name : {"", "a", "b", "ab", "ba", "layers.0.weight", "layers.1.weight"}) {
    for (uint64_t index = 0; index < 100; ++index) seen.insert(stream_of(name, index));
  }
  EXPECT_EQ(seen.size(), 700U);
}

TEST(Random, PermutedIsAPermutationOfEverySize) {
  for (uint64_t n = 1; n <= 130; ++n) {
    std::vector<bool> hit(n);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t j = permuted(i, n, 5, 6);
      ASSERT_LT(j, n);
      EXPECT_FALSE(hit[j]) << "twice " << j << " of " << n;
      hit[j] = true;
    }
  }
  const uint64_t huge = ~uint64_t{0};
  EXPECT_LT(permuted(huge - 1, huge, 5, 6), huge);
  EXPECT_THROW(permuted(4, 4, 5, 6), Error);
}

TEST(Random, PermutedMovesWithSeedAndStream) {
  int same_seed = 0;
  int same_stream = 0;
  int fixed_points = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same_seed += permuted(i, 1000, 1, 1) == permuted(i, 1000, 2, 1) ? 1 : 0;
    same_stream += permuted(i, 1000, 1, 1) == permuted(i, 1000, 1, 2) ? 1 : 0;
    fixed_points += permuted(i, 1000, 1, 1) == i ? 1 : 0;
  }
  EXPECT_LT(same_seed, 12);  // one is expected, Poisson
  EXPECT_LT(same_stream, 12);
  EXPECT_LT(fixed_points, 12);
}

TEST(Random, PermutedSpreadsNeighbours) {
  // The mean distance of two elements drawn from [0, n) is n / 3.
  double distance = 0;
  for (uint64_t i = 0; i + 1 < 5000; ++i) {
    distance += std::fabs(static_cast<double>(permuted(i, 5000, 9, 0)) -
                          static_cast<double>(permuted(i + 1, 5000, 9, 0)));
  }
  EXPECT_NEAR(distance / 4999 / 5000, 1.0 / 3, 0.02);
}

}  // namespace
}  // namespace athanor
