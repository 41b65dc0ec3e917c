#include "base/progress_bar.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(ProgressBar, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(ProgressLine("verifying step 40", 1 << 30, 4ull << 30, 2, 200),
            "verifying step 40  [######..................]  25 %  1 GiB of 4 GiB  512 MiB/s  "
            "0:06 left");
  EXPECT_EQ(ProgressLine("x", 0, 10, 0, 200), "x  [........................]   0 %  0 B of 10 B");
  EXPECT_EQ(ProgressLine("x", 0, 0, 1, 200), "x  [########################] 100 %  0 B of 0 B");
}

TEST(ProgressBar, FitsIntoItsLine) {
  EXPECT_EQ(ProgressLine("verifying step 40", 1, 2, 1, 12), "verifying st");
}

}  // namespace
}  // namespace ringwood
