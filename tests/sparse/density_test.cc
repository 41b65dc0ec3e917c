#include "sparse/density.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

// 1 Gbit/s, six bytes an entry each way.
DensityInput Input() {
  return {.elements = 1000000,
          .hiding_seconds = 10e-3,
          .select_seconds = 1e-3,
          .latency_seconds = 1e-3,
          .seconds_per_entry = 100e-9};
}

double Seconds(const DensityInput& input, uint64_t k) {
  return input.backlog_seconds + input.select_seconds + input.latency_seconds +
         k * input.seconds_per_entry;
}

TEST(ChooseDensity, TakesTheMostEntriesThatStillHide) {
  for (double hiding : {4e-3, 10e-3, 37e-3}) {
    DensityInput input = Input();
    input.hiding_seconds = hiding;
    const DensityChoice choice = ChooseDensity(input);
    EXPECT_LE(Seconds(input, choice.k), hiding * (1 + 1e-9));
    EXPECT_GT(Seconds(input, choice.k + 2), hiding);
  }
}

TEST(ChooseDensity, FallsToTheBoundWhenNothingHides) {
  DensityInput input = Input();
  input.hiding_seconds = 0;
  EXPECT_EQ(ChooseDensity(input).k, 1000u);
  input.hiding_seconds = 1e-3;  // less than the start-up
  EXPECT_EQ(ChooseDensity(input).k, 1000u);
  EXPECT_NE(ChooseDensity(input).reason.find("cannot hide"), std::string::npos);
}

TEST(ChooseDensity, IsDenseWhenEverythingHidesAndGivesWayToABacklog) {
  DensityInput input = Input();
  input.hiding_seconds = 1;
  EXPECT_EQ(ChooseDensity(input).density, 1);
  input = Input();
  const uint64_t free = ChooseDensity(input).k;
  input.backlog_seconds = 3e-3;
  EXPECT_LT(ChooseDensity(input).k, free);
}

TEST(ChooseDensity, OfOneElementIsOne) {
  DensityInput input = Input();
  input.elements = 1;
  EXPECT_EQ(ChooseDensity(input).k, 1u);
}

}  // namespace
}  // namespace ringwood
