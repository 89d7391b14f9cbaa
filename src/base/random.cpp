#include "base/random.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/math.h"

namespace athanor {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t stream, uint64_t counter) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

uint64_t RandomStream::next() {
  const auto block = philox(seed_, stream_, counter_++);
  return (uint64_t{block[1]} << 32) | block[0];
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * math::log(1.0 - uniform()));
  return radius * math::cos(6.283185307179586 * uniform());
}

uint64_t RandomStream::below(uint64_t n) {
  require(n > 0, "random number below zero");
  const uint64_t limit = -n % n;  // 2^64 mod n: values under it would be favoured
  while (true) {
    const uint64_t x = next();
    if (x >= limit) return x % n;
  }
}

uint64_t stream_of(const char* name, uint64_t index) {
  uint64_t h = 0xcbf29ce484222325ULL;  // FNV-1a
  for (; *name != '\0'; ++name) h = (h ^ static_cast<unsigned char>(*name)) * 0x100000001b3ULL;
  h ^= index * 0x9E3779B97F4A7C15ULL;
  h ^= h >> 29;
  return h * 0xBF58476D1CE4E5B9ULL;
}

uint64_t permuted(uint64_t i, uint64_t n, uint64_t seed, uint64_t stream) {
  require(i < n, "permutation index outside its range");
  if (n == 1) return 0;
  const int bits = 64 - std::countl_zero(n - 1);
  const int half = (bits + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t x = i;
  do {
    uint64_t left = x >> half;
    uint64_t right = x & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const auto block = philox(seed, stream ^ (round << 56), right);
      const uint64_t f = ((uint64_t{block[1]} << 32) | block[0]) & mask;
      const uint64_t next = left ^ f;
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace athanor
