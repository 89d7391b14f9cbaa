#include "base/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // a complete XXH3_state_t
#include <xxhash.h>

namespace athanor {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

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

std::string Checksum::hex() const { return to_hex(XXH3_128bits_digest(&state_->xxh3)); }

std::string Checksum::of(const void* data, size_t bytes) {
  return to_hex(XXH3_128bits(data, bytes));
}

std::array<unsigned char, 16> Checksum::digest_of(const void* data, size_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  return std::to_array(canonical.digest);
}

}  // namespace athanor
