#include "base/text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace ringwood {
namespace {

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("short", 5), "short");
  EXPECT_EQ(Shortened("longer", 4), "long… (2 bytes more)");
  EXPECT_EQ(Shortened("aé", 2), "a… (2 bytes more)");  // é has two bytes
  EXPECT_EQ(Shortened("😀😀", 5), "😀… (4 bytes more)");
}

TEST(Text, ObeysNoControlCharacter) {
  EXPECT_EQ(Printable("two\nlines\tand\x1b[2J", 100), "two\\nlines\\tand\\x1b[2J");
  EXPECT_EQ(Printable("\x7f\xc2\x9b", 100), "\\x7f\\x9b");
  EXPECT_EQ(Printable("größe 😀", 100), "größe 😀");
  EXPECT_EQ(Printable("\xff\xc0\xaf\xed\xa0\x80", 100), "??????");  // no UTF-8, overlong, surrogate
  EXPECT_EQ(Printable("a\nb\nc", 3), "a\\nb… (2 bytes more)");
}

TEST(Text, OfAnyBytesIsBoundedAndPrintable) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t n = random.Below(200); n > 0; --n)
      text.push_back(static_cast<char>(random.Next()));
    const std::string out = Printable(text, 64);
    EXPECT_LE(out.size(), 64 * 4 + 24);
    for (const unsigned char c : out) EXPECT_TRUE(c >= 0x20 && c != 0x7F);
    EXPECT_EQ(Printable(out, 1000), out);
  }
}

}  // namespace
}  // namespace ringwood
