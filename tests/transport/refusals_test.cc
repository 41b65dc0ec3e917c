#include "transport/refusals.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(Refusals, OneLineInTenSecondsAndACountOfTheRest) {
  Refusals refusals;
  const TimePoint start = TimePoint() + Seconds(1);
  EXPECT_EQ(refusals.Line("refused", start), "refused");
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(refusals.Line("refused", start + Seconds(9)), "");
  EXPECT_EQ(refusals.Line("refused", start + Seconds(10)),
            "refused (and 5000 like it before, not shown)");
  EXPECT_EQ(refusals.Line("refused", start + Seconds(20)), "refused");
}

}  // namespace
}  // namespace ringwood
