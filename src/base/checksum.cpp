#include "base/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // a complete XXH3_state_t
#include <xxhash.h>

namespace athanor {
namespace {

Digest digest(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return std::to_array(canonical.digest);
}

}  // namespace

std::string hex_of(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(const void* data, size_t bytes) {
  XXH3_128bits_update(&state_->xxh3, data, bytes);
}

std::string Checksum::hex() const { return hex_of(digest(XXH3_128bits_digest(&state_->xxh3))); }

std::string Checksum::of(const void* data, size_t bytes) { return hex_of(digest_of(data, bytes)); }

Digest Checksum::digest_of(const void* data, size_t bytes) {
  return digest(XXH3_128bits(data, bytes));
}

}  // namespace athanor
