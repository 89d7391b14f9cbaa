#include "data/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace athanor::data {
namespace {

std::string encode(uint32_t code) {
  std::string out;
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 63));
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  }
  return out;
}

TEST(Utf8, EveryCodePointIsValidAndEverySurrogateIsNot) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    const std::string text = encode(code);
    const bool valid = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(valid_utf8_prefix(text), valid ? text.size() : 0) << std::hex << code;
  }
}

TEST(Utf8, StopsAtTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_prefix("eight by\xFFte"), 8u);
  EXPECT_EQ(valid_utf8_prefix("a\xC3"), 1u);            // cut
  EXPECT_EQ(valid_utf8_prefix("ab\xC0\x80"), 2u);       // overlong NUL
  EXPECT_EQ(valid_utf8_prefix("abc\xE0\x9F\xBF"), 3u);  // overlong
  EXPECT_EQ(valid_utf8_prefix("0123456789abcde\x80"), 15u);
}

std::string repaired(Utf8Repair::Policy policy, std::string_view bytes) {
  Utf8Repair repair(policy);
  std::string out;
  for (const char c : bytes) {
    repair.push(static_cast<unsigned char>(c), out);
    EXPECT_EQ(valid_utf8_prefix(out), out.size()) << "a character was cut";
  }
  repair.finish(out);
  return out;
}

TEST(Utf8, RepairKeepsGoodCharactersAndMarksBadOnes) {
  const std::string mark = "\xEF\xBF\xBD";
  using enum Utf8Repair::Policy;
  EXPECT_EQ(repaired(kEachByte, "a\xC3\xA9\xF0\x9F\x98\x80"), "a\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired(kEachByte, "\xF0\x9F\x98z"), mark + mark + mark + "z");
  EXPECT_EQ(repaired(kMaximalPart, "\xF0\x9F\x98z"), mark + "z");
  EXPECT_EQ(repaired(kMaximalPart, "\xF0\x80\x80"), mark + mark + mark);  // 80 never follows F0
  EXPECT_EQ(repaired(kMaximalPart, "\xC3\xC3\xA9"), mark + "\xC3\xA9");
  EXPECT_EQ(repaired(kEachByte, "\xE2\x96"), mark + mark);
  EXPECT_EQ(repaired(kMaximalPart, "\xE2\x96"), mark);
}

}  // namespace
}  // namespace athanor::data
