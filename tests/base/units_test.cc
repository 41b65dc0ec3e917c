#include "base/units.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(Units, NoTimeIsInSeconds) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(2e-6), "2 us");
  EXPECT_EQ(FormatSeconds(-0.25), "-250 ms");
  EXPECT_EQ(FormatSeconds(2.99999), "3 s");
  EXPECT_EQ(FormatSeconds(12345.6), "12346 s");
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
