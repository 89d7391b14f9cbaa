#include "comm/keyed_hash.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>

#include "base/error.h"

namespace athanor::comm {
namespace {

uint64_t little_endian(const unsigned char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

Secret new_secret() {
  Secret secret;
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw system_error(errno, "read", "random numbers", ExitCode::kResources);
  }
  return secret;
}

uint64_t keyed_hash(const Secret& secret, std::string_view bytes) {
  const uint64_t k0 = little_endian(secret.data(), 8);
  const uint64_t k1 = little_endian(secret.data() + 8, 8);
  State state{k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
              k1 ^ 0x7465646279746573u};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.absorb(little_endian(data + at, 8));
  state.absorb(little_endian(data + at, bytes.size() - at) | static_cast<uint64_t>(bytes.size())
                                                                 << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace athanor::comm
