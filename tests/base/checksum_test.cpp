#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace athanor {
namespace {

// Digests of xxhsum -H2 (xxHash 0.8.1).
TEST(Checksum, KnownDigests) {
  EXPECT_EQ(Checksum::of("", 0), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Checksum::of("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

TEST(Checksum, AStreamInAnyPiecesEqualsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7 % 251);
  const std::string whole = Checksum::of(text.data(), text.size());
  for (const size_t piece : {1, 7, 64, 255, 1024, 4999}) {
    Checksum stream;
    for (size_t at = 0; at < text.size(); at += piece) {
      stream.update(text.data() + at, std::min(piece, text.size() - at));
    }
    EXPECT_EQ(stream.hex(), whole) << "pieces of " << piece;
  }
}

TEST(Checksum, HexMayBeAskedForOnTheWayAndAfterAMove) {
  Checksum stream;
  stream.update("ab", 2);
  EXPECT_EQ(stream.hex(), Checksum::of("ab", 2));
  Checksum moved = std::move(stream);
  moved.update("c", 1);
  EXPECT_EQ(moved.hex(), Checksum::of("abc", 3));
}

TEST(Checksum, EveryByteCounts) {
  std::string text(300, 'a');
  const std::string before = Checksum::of(text.data(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] ^= 1;
    EXPECT_NE(Checksum::of(text.data(), text.size()), before) << "byte " << i;
    text[i] ^= 1;
  }
}

}  // namespace
}  // namespace athanor
