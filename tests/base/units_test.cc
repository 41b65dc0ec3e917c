#include "base/units.h"

#include <gtest/gtest.h>

#include "base/log_line.h"

namespace ringwood {
namespace {

TEST(Units, NoTimeIsInSeconds) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(2e-6), "2 us");
  EXPECT_EQ(FormatSeconds(-0.25), "-250 ms");
  EXPECT_EQ(FormatSeconds(2.99999), "3 s");
  EXPECT_EQ(FormatSeconds(12345.6), "12346 s");
}

TEST(Units, NumbersThatRoundUpGetTheNextUnit) {
  EXPECT_EQ(FormatSeconds(0.9997), "1 s");
  EXPECT_EQ(FormatSeconds(0.9994), "999 ms");
  EXPECT_EQ(FormatSeconds(-0.9996e-3), "-1 ms");
  EXPECT_EQ(FormatSeconds(99.97), "100 s");
}

TEST(Moment, IsInUtcAndSaysSo) {
  EXPECT_EQ(FormatMoment(1796049617.9), "2026-11-30 14:40:17Z");
  EXPECT_EQ(FormatMoment(0), "1970-01-01 00:00:00Z");
}

TEST(Units, TimesAreReadAsPeopleTypeThem) {
  EXPECT_EQ(*ParseDuration("90s"), 90);
  EXPECT_EQ(*ParseDuration("1.5m"), 90);
  EXPECT_EQ(*ParseDuration("8h"), 28'800);
  EXPECT_EQ(*ParseDuration("7d"), 604'800);
  for (const char* none :
       {"", "h", "8 h", "8x", "-1h", "0", "8", "90", "0s", "nan", "inf", "1e30"}) {
    EXPECT_FALSE(ParseDuration(none).ok()) << none;
  }
  EXPECT_EQ(*ParseDuration("10000d"), 864'000'000);
  for (const char* more : {"10001d", "100000d", "1e30s", "infs"}) {
    EXPECT_EQ(Message(ParseDuration(more).status()),
              std::string("\"") + more + "\" is too long: at most 10000d");
  }
}

}  // namespace
}  // namespace ringwood
