// SipHash-2-4: a keyed hash by which parents prove to each other that they belong to one launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace athanor::comm {

/// What the parents of a launch know and nobody else does.
using Secret = std::array<unsigned char, 16>;

/// From the kernel's random numbers. kResources when it has none.
Secret new_secret();

/// J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012.
uint64_t keyed_hash(const Secret& secret, std::string_view bytes);

}  // namespace athanor::comm
